// SPDX-License-Identifier: Apache-2.0
#include "predict/time_model.hpp"
#include "table/imported_trials.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

RecordedRun run_of(std::int32_t tp, double speed, Outcome outcome = Outcome::completed) {
  RecordedRun run;
  run.point.nodes = run.nodes = 1;
  run.point.gpus = 8;
  run.point.seq_len = 4096;
  run.point.layout.tp = tp;
  run.point.layout.dp = 8 / tp;
  run.point.layout.grad_accum = 32 * tp;
  run.outcome = outcome;
  if (outcome == Outcome::completed) run.tokens_per_s_per_gpu = speed;
  return run;
}

ImportedSweep imported(
    RecordedSweep recorded, const Family* family = nullptr, ClusterSpec cluster = h100()) {
  recorded.file = "runs.csv";
  if (recorded.models.empty()) recorded.models = {llama3_8b()};
  int line = 1;
  for (auto& run : recorded.runs)
    run.line = ++line;
  return imported_trials(
      recorded, {.name = "theirs", .cluster = std::move(cluster), .family = family, .labels = {}});
}

}  // namespace

TEST_CASE("an imported speed gives step time and MFU from one parameter count") {
  const auto sweep = imported({.runs = {run_of(1, 9000), run_of(8, 5000)}});
  REQUIRE(sweep.trials.size() == 2);
  const auto& metrics = sweep.trials[0].metrics;
  CHECK(metrics.at("tokens_per_s_per_gpu") == 9000);
  CHECK(metrics.at("tokens_per_s") == 72000);
  CHECK(metrics.at("tokens_per_step") == 256 * 4096);
  CHECK(metrics.at("train_step_ms") == doctest::Approx(1e3 * 256 * 4096 / 72000.0));
  // 48.25 GFLOP per token: 6 (8,030,261,248 less the embedding) + 6 * 32 * 4096 * 4096
  const double flops = 6 * (8030261248.0 - 128256.0 * 4096) + 6.0 * 32 * 4096 * 4096;
  CHECK(metrics.at("mfu") == doctest::Approx(9000 * flops / 989.4e12).epsilon(1e-4));
  CHECK(sweep.trials[1].metrics.at("mfu") / metrics.at("mfu") == doctest::Approx(5.0 / 9));
  CHECK(sweep.trials[1].metrics.at("n_params") == 8030261248.0);
  CHECK(sweep.trials[0].prediction.memory_bytes == 0);
  CHECK(sweep.trials[0].cause == "recorded in line 2 of runs.csv");
}

TEST_CASE("what failed has no number and what has no peak has no MFU") {
  auto cluster = h100();
  cluster.peak_flops = {};
  const auto sweep =
      imported({.runs = {run_of(1, 0, Outcome::oom), run_of(8, 5000)}}, nullptr, cluster);
  CHECK(sweep.trials[0].metrics.empty());
  CHECK(sweep.trials[0].outcome == Outcome::oom);
  CHECK_FALSE(sweep.trials[1].metrics.contains("mfu"));
  CHECK(sweep.trials[1].metrics.contains("tflops_per_gpu"));
}

TEST_CASE("a known family predicts what was measured") {
  const auto sweep = imported({.runs = {run_of(8, 5000)}}, *find_family("nanotron"));
  CHECK(sweep.trials[0].prediction.memory_bytes > 0);
  CHECK(sweep.trials[0].prediction.tokens_per_s_per_gpu > 0);
  CHECK(sweep.sweep.runner.name == "nanotron");
}

TEST_CASE("rows of one layout are repeats and another software or kernel is another trial") {
  auto newer = run_of(1, 8000);
  newer.software_version = "2";
  auto flash = run_of(1, 8500);
  flash.kernel = "flash";
  const auto sweep =
      imported({.runs = {run_of(1, 9000), run_of(1, 9100), newer, flash, run_of(8, 1)}});
  std::set<std::string> identities;
  for (const auto& trial : sweep.trials)
    identities.insert(trial.names.identity);
  CHECK(identities.size() == 5);
  CHECK(sweep.trials[0].point.repeat == 1);
  CHECK(sweep.trials[1].point.repeat == 2);
  CHECK(sweep.trials[0].names.lane == sweep.trials[1].names.lane);
  CHECK(sweep.trials[2].point.repeat == 1);
  CHECK(sweep.trials[2].names.lane != sweep.trials[0].names.lane);
  CHECK(sweep.trials[3].names.lane != sweep.trials[0].names.lane);
  CHECK(sweep.trials[2].runner_version == "2");
  CHECK(sweep.trials[0].runner_version == "unknown");
}

TEST_CASE("models of one name are told apart by what differs") {
  RecordedSweep recorded;
  recorded.models = {llama3_8b(), llama3_8b()};
  recorded.models[1].kv_heads = 32;
  recorded.runs = {run_of(1, 9000), run_of(1, 8000)};
  recorded.runs[1].point.model = 1;
  const auto sweep = imported(std::move(recorded));
  CHECK(sweep.sweep.models[0].name == "llama-3-8b");
  CHECK(sweep.sweep.models[1].name == "llama-3-8b-kv_heads32");
  CHECK(sweep.trials[0].names.identity != sweep.trials[1].names.identity);
}

TEST_CASE("the newest version of the software is submitted last") {
  auto fixed = run_of(1, 9000);
  fixed.software_version = "after_pp_fix";
  auto old = run_of(8, 5000);
  old.software_version = "before_pp_fix";
  const auto sweep = imported({.runs = {fixed, old}, .newest_version = "after_pp_fix"});
  REQUIRE(sweep.trials.size() == 2);
  CHECK(sweep.trials[0].runner_version == "before_pp_fix");
  CHECK(sweep.trials[1].runner_version == "after_pp_fix");
}

TEST_CASE("what the table's reader calls comparable is of one version, and keeps its label") {
  auto fixed = run_of(1, 9000);
  fixed.software_version = "after_pp_fix";
  fixed.comparable = "after_pp_fix or pp 1";
  auto unconcerned = run_of(8, 5000);
  unconcerned.software_version = "before_pp_fix";
  unconcerned.comparable = fixed.comparable;
  auto old = run_of(4, 4000);
  old.software_version = "before_pp_fix";
  const auto sweep =
      imported({.runs = {fixed, unconcerned, old}, .newest_version = "after_pp_fix"});
  REQUIRE(sweep.trials.size() == 3);
  CHECK(sweep.trials[0].runner_version == "before_pp_fix");
  CHECK(sweep.trials[1].runner_version == "after_pp_fix or pp 1");
  CHECK(sweep.trials[2].runner_version == "after_pp_fix or pp 1");
  const auto label = std::find(sweep.labels.begin(), sweep.labels.end(), "software_version") -
      sweep.labels.begin();
  CHECK(sweep.trials[2].labels.at(static_cast<std::size_t>(label)) == Value("before_pp_fix"));
}

TEST_CASE("a world below a node is on as many nodes as its table says") {
  RecordedSweep recorded;
  auto run = run_of(1, 9000);
  run.point.nodes = 0;
  run.point.gpus = run.point.layout.dp = 2;
  recorded.runs.push_back(run);
  CHECK(imported(std::move(recorded)).trials.front().point.nodes == 1);
}
