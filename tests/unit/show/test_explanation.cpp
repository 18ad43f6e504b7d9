// SPDX-License-Identifier: Apache-2.0
#include "predict/predictor.hpp"
#include "show/explanation.hpp"
#include "show/show_view.hpp"
#include "unit/table_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>

using namespace shardsweep;

namespace {

ModelSpec explained_model() {
  return {.name = "small",
      .layers = 16,
      .hidden = 2048,
      .ffn = 8192,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 32000};
}

ClusterSpec explained_cluster() {
  ClusterSpec cluster;
  cluster.name = "h100-8x";
  cluster.gpu = "H100";
  cluster.gpus_per_node = 8;
  cluster.memory_bytes = std::int64_t{80} << 30;
  cluster.peak_flops = {989e12, 67e12, 67e12};
  cluster.memory_bandwidth = 3.35e12;
  cluster.intra_node_bandwidth = 450e9;
  cluster.inter_node_bandwidth = 50e9;
  return cluster;
}

/// A measured trial of two stages: 100 ms, of which its ranks waited 18 ms for tp.
ReportedTrial measured_trial() {
  ReportedTrial trial;
  trial.sweep = "demo";
  trial.trial = "t1";
  trial.model = "small";
  trial.nodes = 1;
  trial.gpus = 8;
  trial.seq_len = 4096;
  trial.dtype = "bf16";
  trial.state = "ended";
  trial.outcome = "completed";
  trial.train_step_ms = 100;
  trial.tokens_per_s_per_gpu = 8192;
  trial.peak_memory_bytes = std::int64_t{40} << 30;
  trial.phases =
      "forward=30;backward=40;transfer=12;reduction=6;gradient_norm=2;optimizer=9;other=1";
  trial.waits = "tp=18;dp=8;pp=12;world=2";
  trial.memory_classes =
      "parameters=10;gradients=20;optimizer=30;activations=40;workspace=5;communication=2";
  trial.runner = "shardbench-cuda";
  for (const auto& [axis, value] :
      {std::pair("dp", 2), std::pair("tp", 2), std::pair("pp", 2), std::pair("micro_batch", 1),
          std::pair("grad_accum", 8), std::pair("zero", 1), std::pair("sequence_parallel", 0)})
    set_axis(trial, axis, std::int64_t{value});
  set_axis(trial, "recompute", std::string("none"));
  return trial;
}

const Table& section_of(const std::vector<Reader::Section>& sections, std::string_view title) {
  const auto found = std::find_if(sections.begin(), sections.end(),
      [&](const Reader::Section& one) { return one.title == title; });
  REQUIRE(found != sections.end());
  return found->table;
}

/// Of the row that begins with `name`.
Value cell_of(const Table& table, const std::string& name, const std::string& column) {
  const Rows rows(table);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (table.rows[row].front() == Value(name)) return rows.value(row, column);
  }
  return std::string("no such row");
}

std::string finding_of(const std::vector<Reader::Section>& sections) {
  const auto value = cell_of(section_of(sections, "trial"), "finding", "value");
  return std::holds_alternative<std::string>(value) ? std::get<std::string>(value) : "";
}

}  // namespace

TEST_CASE("a measured step is shared out without counting a wait twice") {
  const auto trial = measured_trial();
  const auto sections = explanation({trial, explained_model(), explained_cluster()});
  const auto& step = section_of(sections, "train step");
  CHECK(cell_of(step, "tensor parallel", "measured_ms") == Value(18.0));
  CHECK(cell_of(step, "pipeline", "measured_ms") == Value(12.0));
  // Of 8 ms that ranks waited for dp, 6 are the reduction and 2 lie in ZeRO's gathering.
  CHECK(cell_of(step, "data parallel", "measured_ms") == Value(8.0));
  CHECK(cell_of(step, "optimizer", "measured_ms") == Value(9.0));
  CHECK(cell_of(step, "compute", "measured_ms") == Value(52.0));
  double sum = 0;
  double shares = 0;
  const Rows parts(step);
  for (std::size_t row = 0; row + 1 < parts.size(); ++row) {
    sum += parts.number(row, "measured_ms").value_or(0);
    shares += parts.number(row, "measured_share").value_or(0);
  }
  CHECK(sum == doctest::Approx(100));
  CHECK(shares == doctest::Approx(1));
  CHECK(cell_of(step, "train step", "measured_ms") == Value(100.0));
}

TEST_CASE("ZeRO 3 waits for weights within forward and backward") {
  auto trial = measured_trial();
  set_axis(trial, "zero", std::int64_t{3});
  const auto sections = explanation({trial, explained_model(), explained_cluster()});
  const auto& step = section_of(sections, "train step");
  CHECK(cell_of(step, "compute", "measured_ms") == Value(50.0));
  CHECK(cell_of(step, "optimizer", "measured_ms") == Value(11.0));
}

TEST_CASE("predicted parts are those of the predictor, and add up to its step") {
  const auto trial = measured_trial();
  const auto sections = explanation({trial, explained_model(), explained_cluster()});
  const auto point = point_of(trial);
  CHECK(point.layout.tp == 2);
  CHECK(point.layout.grad_accum == 8);
  CHECK(point.dtype == Dtype::bf16);
  const auto guess = Predictor(explained_cluster(), family_of_runner("shardbench-cuda"))
                         .guess(explained_model(), point);
  const auto& step = section_of(sections, "train step");
  CHECK(cell_of(step, "tensor parallel", "predicted_ms") == Value(guess.time.tp_s * 1e3));
  CHECK(cell_of(step, "pipeline", "predicted_ms") ==
      Value((guess.time.bubble_s + guess.time.pp_s) * 1e3));
  CHECK(std::get<double>(cell_of(step, "train step", "predicted_ms")) ==
      doctest::Approx(guess.step_s * 1e3));
  const auto& memory = section_of(sections, "memory");
  CHECK(cell_of(memory, "weights", "measured_bytes") == Value(std::int64_t{10}));
  CHECK(cell_of(memory, "peak", "predicted_bytes") == Value(guess.memory.estimate.total()));
  CHECK(cell_of(memory, "limit", "measured_bytes") == Value(std::int64_t{80} << 30));
  CHECK(finding_of(sections).find("The trial's peak leaves 40.0 GiB of 80.0 GiB free.") !=
      std::string::npos);
  CHECK(finding_of(sections).find("times as long as predicted.") != std::string::npos);
}

TEST_CASE("a trial without numbers says why") {
  auto trial = measured_trial();
  trial.train_step_ms.reset();
  trial.tokens_per_s_per_gpu.reset();
  trial.peak_memory_bytes.reset();
  trial.phases = trial.waits = trial.memory_classes = "";
  trial.outcome = "oom";
  const auto oom = explanation({trial, explained_model(), explained_cluster()});
  CHECK(finding_of(oom).find("No train step is measured: the trial ended as oom.") !=
      std::string::npos);
  CHECK(cell_of(section_of(oom, "train step"), "compute", "measured_ms") == Value());
  trial.outcome = "";
  trial.state = "queued";
  CHECK(finding_of(explanation({trial, explained_model(), explained_cluster()}))
            .starts_with(
                "The trial has not ended: its state is queued. All numbers are predictions."));
  const auto nothing = explanation({trial});
  CHECK(finding_of(nothing).find("Nothing is predicted: the cluster is not known.") !=
      std::string::npos);
  CHECK(nothing.size() == 1);
}

TEST_CASE("a runner that reports no parts is told so, and its step stays") {
  auto trial = measured_trial();
  trial.phases = trial.memory_classes = "";
  const auto sections = explanation({trial, explained_model(), explained_cluster()});
  CHECK(finding_of(sections).find("the result record has no phase_ms.") != std::string::npos);
  CHECK(finding_of(sections).find("the result record has no peak_memory_by_class.") !=
      std::string::npos);
  CHECK(cell_of(section_of(sections, "train step"), "train step", "measured_ms") == Value(100.0));
}

TEST_CASE("of a cluster without rates the prediction gives shares and no times") {
  const auto trial = measured_trial();
  ClusterSpec unknown;
  unknown.name = "cpu";
  unknown.gpus_per_node = 8;
  const auto sections = explanation({trial, explained_model(), unknown});
  const auto& step = section_of(sections, "train step");
  CHECK(cell_of(step, "compute", "predicted_ms") == Value());
  CHECK(std::holds_alternative<double>(cell_of(step, "compute", "predicted_share")));
  CHECK(cell_of(step, "train step", "predicted_ms") == Value());
  CHECK(
      finding_of(sections).find("`shardsweep calibrate` measures the speed.") != std::string::npos);
}

TEST_CASE("parts that only a runner knows stand under its own names") {
  auto trial = measured_trial();
  trial.phases = "forward=50;checkpoint=20";
  trial.memory_classes = "expert weights=7";
  const auto sections = explanation({trial, explained_model(), explained_cluster()});
  CHECK(cell_of(section_of(sections, "train step"), "checkpoint", "measured_ms") == Value(20.0));
  CHECK(cell_of(section_of(sections, "memory"), "expert weights", "measured_bytes") ==
      Value(std::int64_t{7}));
}

TEST_CASE("an explanation is one object in JSON") {
  const auto trial = measured_trial();
  const auto text = sections_text(
      explanation({trial, explained_model(), explained_cluster()}), {.format = Format::json});
  CHECK(text.starts_with("[\n{\"name\":\"demo/t1\",\"trial\":{"));
  CHECK(text.find("\"train step\":[\n{\"part\":\"compute\",\"measured_ms\":52,") !=
      std::string::npos);
}
