// SPDX-License-Identifier: Apache-2.0
#include "predict/predictor.hpp"
#include "show/explanation.hpp"
#include "show/show_view.hpp"

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
Table measured_trial() {
  Table table{{"sweep", "trial", "model", "nodes", "gpus", "seq_len", "dtype", "dp", "tp", "pp",
                  "micro_batch", "grad_accum", "zero", "recompute", "sequence_parallel", "state",
                  "outcome", "mark", "train_step_ms", "tokens_per_s_per_gpu", "peak_memory_bytes",
                  "phases", "waits", "memory_classes", "runner"},
      {}};
  table.rows.push_back({std::string("demo"), std::string("t1"), std::string("small"),
      std::int64_t{1}, std::int64_t{8}, std::int64_t{4096}, std::string("bf16"), std::int64_t{2},
      std::int64_t{2}, std::int64_t{2}, std::int64_t{1}, std::int64_t{8}, std::int64_t{1},
      std::string("none"), std::int64_t{0}, std::string("ended"), std::string("completed"), Value(),
      100.0, 8192.0, std::int64_t{40} << 30,
      std::string("forward=30;backward=40;transfer=12;reduction=6;"
                  "gradient_norm=2;optimizer=9;other=1"),
      std::string("tp=18;dp=8;pp=12;world=2"),
      std::string("parameters=10;gradients=20;optimizer=30;activations=40;"
                  "workspace=5;communication=2"),
      std::string("shardbench-cuda")});
  return table;
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

void set(Table& table, const std::string& column, Value value) {
  const auto at = std::find(table.columns.begin(), table.columns.end(), column);
  REQUIRE(at != table.columns.end());
  table.rows[0][static_cast<std::size_t>(at - table.columns.begin())] = std::move(value);
}

}  // namespace

TEST_CASE("a measured step is shared out without counting a wait twice") {
  const auto table = measured_trial();
  const Rows rows(table);
  const auto sections = explanation({rows, 0, explained_model(), explained_cluster()});
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
  auto table = measured_trial();
  set(table, "zero", std::int64_t{3});
  const Rows rows(table);
  const auto sections = explanation({rows, 0, explained_model(), explained_cluster()});
  const auto& step = section_of(sections, "train step");
  CHECK(cell_of(step, "compute", "measured_ms") == Value(50.0));
  CHECK(cell_of(step, "optimizer", "measured_ms") == Value(11.0));
}

TEST_CASE("predicted parts are those of the predictor, and add up to its step") {
  const auto table = measured_trial();
  const Rows rows(table);
  const auto sections = explanation({rows, 0, explained_model(), explained_cluster()});
  const auto point = point_of(rows, 0);
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
  auto table = measured_trial();
  for (const char* column : {"train_step_ms", "tokens_per_s_per_gpu", "peak_memory_bytes", "phases",
           "waits", "memory_classes"})
    set(table, column, Value());
  set(table, "outcome", std::string("oom"));
  const Rows rows(table);
  const auto oom = explanation({rows, 0, explained_model(), explained_cluster()});
  CHECK(finding_of(oom).find("No train step is measured: the trial ended as oom.") !=
      std::string::npos);
  CHECK(cell_of(section_of(oom, "train step"), "compute", "measured_ms") == Value());
  set(table, "outcome", Value());
  set(table, "state", std::string("queued"));
  const Rows waiting(table);
  CHECK(finding_of(explanation({waiting, 0, explained_model(), explained_cluster()}))
            .starts_with("It has not ended: its state is queued. All numbers are predictions."));
  const auto nothing = explanation({waiting, 0});
  CHECK(finding_of(nothing).find("Nothing is predicted: the cluster is not known.") !=
      std::string::npos);
  CHECK(nothing.size() == 1);
}

TEST_CASE("a runner that reports no parts is told so, and its step stays") {
  auto table = measured_trial();
  set(table, "phases", Value());
  set(table, "memory_classes", Value());
  const Rows rows(table);
  const auto sections = explanation({rows, 0, explained_model(), explained_cluster()});
  CHECK(finding_of(sections).find("the result record has no phase_ms.") != std::string::npos);
  CHECK(finding_of(sections).find("the result record has no peak_memory_by_class.") !=
      std::string::npos);
  CHECK(cell_of(section_of(sections, "train step"), "train step", "measured_ms") == Value(100.0));
}

TEST_CASE("of a cluster without rates the prediction gives shares and no times") {
  const auto table = measured_trial();
  const Rows rows(table);
  ClusterSpec unknown;
  unknown.name = "cpu";
  unknown.gpus_per_node = 8;
  const auto sections = explanation({rows, 0, explained_model(), unknown});
  const auto& step = section_of(sections, "train step");
  CHECK(cell_of(step, "compute", "predicted_ms") == Value());
  CHECK(std::holds_alternative<double>(cell_of(step, "compute", "predicted_share")));
  CHECK(cell_of(step, "train step", "predicted_ms") == Value());
  CHECK(
      finding_of(sections).find("`shardsweep calibrate` measures the speed.") != std::string::npos);
}

TEST_CASE("parts that only a runner knows stand under its own names") {
  auto table = measured_trial();
  set(table, "phases", std::string("forward=50;checkpoint=20"));
  set(table, "memory_classes", std::string("expert weights=7"));
  const Rows rows(table);
  const auto sections = explanation({rows, 0, explained_model(), explained_cluster()});
  CHECK(cell_of(section_of(sections, "train step"), "checkpoint", "measured_ms") == Value(20.0));
  CHECK(cell_of(section_of(sections, "memory"), "expert weights", "measured_bytes") ==
      Value(std::int64_t{7}));
}

TEST_CASE("an explanation is one object in JSON") {
  const auto table = measured_trial();
  const Rows rows(table);
  const auto text = sections_text(
      explanation({rows, 0, explained_model(), explained_cluster()}), {.format = Format::json});
  CHECK(text.starts_with("[\n{\"name\":\"demo/t1\",\"trial\":{"));
  CHECK(text.find("\"train step\":[\n{\"part\":\"compute\",\"measured_ms\":52,") !=
      std::string::npos);
}
