// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/memory_score.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

const Family& nanotron() {
  return **find_family("nanotron");
}

RecordedRun run_of(std::int32_t micro_batch, Outcome outcome) {
  RecordedRun run;
  run.point.nodes = 1;
  run.point.gpus = 8;
  run.point.seq_len = 4096;
  run.point.layout.tp = 8;
  run.point.layout.sequence_parallel = true;
  run.point.layout.micro_batch = micro_batch;
  run.point.layout.grad_accum = 4;
  run.outcome = outcome;
  return run;
}

// What is predicted for a row, times a factor, as the reported peak.
std::int64_t times(double factor, const RecordedRun& run) {
  const auto predicted = Predictor(h100(), nanotron()).reported_peak_bytes(llama3_8b(), run.point);
  return static_cast<std::int64_t>(static_cast<double>(predicted) / factor);
}

}  // namespace

TEST_CASE("errors are over good rows and verdicts over good and OOM ones") {
  RecordedSweep sweep;
  sweep.models = {llama3_8b()};
  for (const double off : {1.01, 0.98, 1.05}) {
    auto run = run_of(1, Outcome::completed);
    run.peak_memory_bytes = times(off, run);
    sweep.runs.push_back(run);
  }
  sweep.runs.push_back(run_of(1, Outcome::crashed));
  sweep.runs.push_back(run_of(512, Outcome::oom));
  sweep.runs.push_back(run_of(1, Outcome::oom));
  auto strange = run_of(512, Outcome::completed);
  strange.oom_error = true;
  strange.peak_memory_bytes = 1;
  sweep.runs.push_back(strange);
  auto unknown = run_of(512, Outcome::completed);  // good, impossible, and nothing reported
  sweep.runs.push_back(unknown);

  const auto report = score_memory(sweep, h100(), nanotron());
  const auto& total = report.total;
  CHECK(total.good == 4);
  CHECK(total.good_left_out == 1);
  CHECK(total.peak.rows == 3);
  CHECK(*total.peak.median == doctest::Approx(0.02).epsilon(0.01));
  CHECK(*total.peak.p90 == doctest::Approx(0.05).epsilon(0.01));
  CHECK(total.oom == 2);
  CHECK(total.caught == 1);
  CHECK(total.missed == 1);
  CHECK(total.allocated.rows == 0);
  CHECK_FALSE(total.allocated.median.has_value());
  REQUIRE(report.models.size() == 1);
  CHECK(report.models[0].model == "llama-3-8b");
  CHECK(report.models[0].oom == 2);
}

TEST_CASE("without a known memory nothing is left out") {
  RecordedSweep sweep;
  sweep.models = {llama3_8b()};
  sweep.runs = {run_of(512, Outcome::completed), run_of(512, Outcome::oom)};
  auto cluster = h100();
  cluster.memory_bytes = 0;
  const auto total = score_memory(sweep, cluster, nanotron()).total;
  CHECK(total.good_left_out == 0);
  CHECK(total.missed == 1);
}

TEST_CASE("the kernel decides what attention keeps") {
  RecordedSweep sweep;
  sweep.models = {llama3_8b()};
  auto run = run_of(1, Outcome::completed);
  run.point.seq_len = 8192;
  run.kernel = "torch";
  run.peak_memory_bytes = times(1, run);
  sweep.runs = {run};
  const auto kept = *score_memory(sweep, h100(), nanotron()).total.peak.median;
  sweep.runs[0].kernel = "flash_attn2";
  const auto flash = *score_memory(sweep, h100(), nanotron()).total.peak.median;
  CHECK(flash == doctest::Approx(0).epsilon(1e-6));
  CHECK(kept > 0.2);
}

TEST_CASE("what a row does not say leaves no good row out") {
  const Predictor predictor(h100(), nanotron());
  const auto fits = [&](RecordedRun run, bool split) {
    run.point.layout.sequence_parallel = split;
    return predictor.guess_memory(llama3_8b(), run.point).fit != Fit::never;
  };
  // A micro-batch that fits with sequence parallelism alone.
  std::int32_t micro_batch = 1;
  while (micro_batch < 512 && fits(run_of(micro_batch, Outcome::completed), false))
    ++micro_batch;
  auto run = run_of(micro_batch, Outcome::completed);
  run.point.layout.sequence_parallel = false;
  REQUIRE(fits(run, true));
  RecordedSweep sweep;
  sweep.models = {llama3_8b()};
  sweep.runs = {run};
  CHECK(score_memory(sweep, h100(), nanotron()).total.good_left_out == 1);
  sweep.runs[0].unknown.sequence_parallel = true;
  CHECK(score_memory(sweep, h100(), nanotron()).total.good_left_out == 0);
}

TEST_CASE("a row is judged at its best in what it does not say, and in nothing else") {
  auto run = run_of(4, Outcome::completed);
  run.point.layout.dp = 2;
  CHECK(point_at_best(run).layout == run.point.layout);
  run.unknown = {.zero = true, .recompute = true, .sequence_parallel = true};
  run.point.layout.cp = 4;
  const Point best = point_at_best(run);
  CHECK(best.layout.zero == 3);
  CHECK(best.layout.recompute == Recompute::full);
  CHECK(best.layout.sequence_parallel);
  CHECK(best.seq_len == run.point.seq_len / 4);
  run.point.layout.dp = run.point.layout.tp = 1;
  CHECK(point_at_best(run).layout.zero == 0);
  CHECK_FALSE(point_at_best(run).layout.sequence_parallel);
}

TEST_CASE("a model is judged by constants that its own rows did not give") {
  // Two models that two different truths were measured of.
  Family true_of_small = nanotron();
  true_of_small.memory.tp_retained_rows = 12;
  Family true_of_large = nanotron();
  true_of_large.memory.tp_retained_rows = 40;
  RecordedSweep sweep;
  sweep.models = {llama3_8b(), llama3_8b()};
  sweep.models[1].name = "large";
  sweep.models[1].layers *= 2;
  for (const std::int32_t model : {0, 1}) {
    const Predictor truth(h100(), model == 0 ? true_of_small : true_of_large);
    for (const std::int32_t micro_batch : {1, 2, 4}) {
      auto run = run_of(micro_batch, Outcome::completed);
      run.point.model = model;
      run.peak_memory_bytes =
          truth.reported_peak_bytes(sweep.models[static_cast<std::size_t>(model)], run.point);
      sweep.runs.push_back(run);
    }
  }
  const auto blind = refit_memory(sweep, h100(), nanotron(), "large");
  CHECK(blind.memory.tp_retained_rows == 12);
  CHECK(blind.least->tp_retained_rows == nanotron().least->tp_retained_rows);
  CHECK(refit_memory(sweep, h100(), nanotron(), "llama-3-8b").memory.tp_retained_rows == 40);
  const auto report = cross_validate_memory(sweep, h100(), nanotron());
  REQUIRE(report.models.size() == 2);
  const double by_small = static_cast<double>(
      Predictor(h100(), blind).reported_peak_bytes(sweep.models[1], sweep.runs[3].point));
  const double errs = 1 - by_small / static_cast<double>(*sweep.runs[3].peak_memory_bytes);
  CHECK(errs > 0);
  CHECK(*report.models[1].peak.median >= errs);
}

TEST_CASE("a family of which nothing was fitted stays as it is") {
  RecordedSweep sweep;
  sweep.models = {llama3_8b()};
  auto run = run_of(1, Outcome::completed);
  run.peak_memory_bytes = 1000;
  sweep.runs.push_back(run);
  const auto& megatron = **find_family("megatron");
  CHECK(fitted_memory_constants("megatron").empty());
  const auto fitted = refit_memory(sweep, h100(), megatron, "");
  CHECK(fitted.memory.tp_retained_rows == megatron.memory.tp_retained_rows);
  CHECK(fitted.memory.allocator_bytes == megatron.memory.allocator_bytes);
}
