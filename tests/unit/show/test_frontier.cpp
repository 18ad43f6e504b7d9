// SPDX-License-Identifier: Apache-2.0
#include "show/frontier.hpp"
#include "unit/table_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <ostream>

using namespace shardsweep;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

Table layouts_table() {
  return {{"model", "seq_len", "nodes", "gpus", "layout", "tokens_per_s_per_gpu", "mfu",
              "train_step_ms", "peak_memory_bytes", "sweep", "trial", "runner", "runner_version",
              "nvls", "repeats", "repeat_spread", "resolution"},
      {}};
}

struct Measured {
  std::string layout;
  double speed = 0;
  std::optional<std::int64_t> memory_gib{};
  std::int64_t nodes = 1;
  std::int64_t nvls = 0;
  std::int64_t repeats = 1;
  std::optional<double> spread{};
  std::string model = "tiny";
  double resolution = 0;
};

void add(Table& table, const Measured& one) {
  table.rows.push_back({one.model, std::int64_t{128}, one.nodes, one.nodes * 8, one.layout,
      one.speed, Value(), Value(), one.memory_gib ? Value(*one.memory_gib * gib) : Value(),
      std::string("demo"), "trial of " + one.layout, std::string("bench"), std::string("1.0"),
      one.nvls, one.repeats, one.spread ? Value(*one.spread) : Value(),
      one.resolution > 0 ? Value(one.resolution) : Value()});
}

std::string layouts_of(const Table& table) {
  const Rows rows(table);
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row)
    text += (text.empty() ? "" : " ") + rows.text(row, "layout");
  return text;
}

}  // namespace

TEST_CASE("a title names no var that its sweep does not have") {
  auto table = layouts_table();
  add(table, {"alone", 120, 60});
  const auto var = std::find(table.columns.begin(), table.columns.end(), "nvls");
  table.rows[0][static_cast<std::size_t>(var - table.columns.begin())] = Value();
  CHECK(frontier(table, FrontierCost::memory).groups.at(0).title == "tiny, 1 node, seq_len 128");
}

TEST_CASE("a layout is shown where whoever needs less memory is slower") {
  auto table = layouts_table();
  add(table, {"fast", 120, 60});
  add(table, {"slower-and-larger", 110, 70});
  add(table, {"small", 80, 20});
  add(table, {"middle", 100, 40});
  add(table, {"as-large-and-slower", 90, 40});
  add(table, {"as-fast-and-larger", 100, 50});
  const auto found = frontier(table, FrontierCost::memory);
  CHECK(layouts_of(found.table) == "small middle fast");
  CHECK(found.table.note ==
      "Hidden: 3 layouts that are no faster than a layout that needs less memory.");
  REQUIRE(found.groups.size() == 1);
  CHECK(found.groups[0].title == "tiny, 1 node, seq_len 128, nvls 0");
  CHECK(found.groups[0].points.size() == 6);
  CHECK(found.groups[0].points[1].layout == "middle");
  CHECK_FALSE(found.groups[0].points[1].beaten);
  CHECK(found.groups[0].points[2].beaten);
}

TEST_CASE("cells are held apart, and layouts without a peak are counted") {
  auto table = layouts_table();
  add(table, {"a", 100, 40});
  add(table, {"b", 90, 50, 2});
  add(table, {"c", 50, 60, 1, 1});
  add(table, {"d", 500});
  const auto found = frontier(table, FrontierCost::memory);
  CHECK(layouts_of(found.table) == "a c b");
  CHECK(found.table.note == "Left out: 1 layout without peak_memory_bytes.");
}

TEST_CASE("each step up says how sure it is") {
  auto table = layouts_table();
  add(table, {"small", 100, 20, 1, 0, 2, 0.01128});
  add(table, {"lucky", 101, 30, 1, 0, 2, 0.01128});
  add(table, {"fast", 120, 40, 1, 0, 2, 0.01128});
  const auto found = frontier(table, FrontierCost::memory);
  const Rows rows(found.table);
  CHECK(rows.text(0, "against_the_cheaper").empty());
  CHECK(rows.text(1, "against_the_cheaper").starts_with("tie: 1.0 % +/- "));
  CHECK(rows.text(2, "against_the_cheaper").starts_with("faster by 18.8 % +/- "));
}

TEST_CASE("a step up that logs round away is not sure") {
  auto table = layouts_table();
  add(table, {"small", 100, 20, 1, 0, 9, 0.001, "tiny", 0.004});
  add(table, {"rounded", 100.5, 30, 1, 0, 9, 0.001, "tiny", 0.004});
  const auto found = frontier(table, FrontierCost::memory);
  CHECK(Rows(found.table).text(1, "against_the_cheaper") == "tie: 0.5 % +/- 0.8 % (9 runs each)");
  CHECK(found.groups[0].title == "tiny, 1 node, seq_len 128, nvls 0");
}

TEST_CASE("against nodes the speed of the whole world counts") {
  auto table = layouts_table();
  add(table, {"one", 100, 40});
  add(table, {"one-slower", 90, 10});
  add(table, {"two", 90, 40, 2});
  // Four nodes together are slower than two.
  add(table, {"four", 40, 40, 4});
  add(table, {"eight", 50, 40, 8});
  const auto found = frontier(table, FrontierCost::nodes);
  CHECK(found.cost_column == "nodes");
  CHECK(layouts_of(found.table) == "one two eight");
  CHECK(found.table.note == "Hidden: 1 GPU count that is no faster than a smaller one.");
  const Rows rows(found.table);
  CHECK(rows.number(1, "tokens_per_s") == 90 * 16);
  CHECK(rows.number(1, "efficiency_share") == doctest::Approx(0.9));
  CHECK(rows.number(2, "gpu_hours_per_billion_tokens") == doctest::Approx(1e9 / 50 / 3600));
}

TEST_CASE("worlds smaller than a node are counted by GPUs") {
  auto table = layouts_table();
  add(table, {"one", 100, 40, 0});
  CHECK(frontier(table, FrontierCost::nodes).cost_column == "gpus");
}

TEST_CASE("of nothing the frontier is nothing") {
  const auto found = frontier(layouts_table(), FrontierCost::memory);
  CHECK(found.table.rows.empty());
  CHECK(found.groups.empty());
  CHECK(found.table.note.empty());
}
