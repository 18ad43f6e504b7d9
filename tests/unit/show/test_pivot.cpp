// SPDX-License-Identifier: Apache-2.0
#include "show/pivot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <utility>

using namespace shardsweep;

namespace {

CellCandidate ended(const char* row, const char* column, Outcome outcome, bool ranked = false,
    std::int64_t trials = 1) {
  CellCandidate one;
  one.row = row;
  one.column = column;
  one.state = State::ended;
  one.outcome = outcome;
  one.ranked = ranked;
  one.trials = trials;
  return one;
}

CellCandidate open(const char* row, const char* column, State state) {
  CellCandidate one;
  one.row = row;
  one.column = column;
  one.state = state;
  return one;
}

CellCandidate infeasible(const char* row, const char* column) {
  CellCandidate one;
  one.row = row;
  one.column = column;
  one.feasible = false;
  one.trials = 3;
  return one;
}

AnsweredPlace dp1_before_dp2() {
  AnsweredPlace place{.row = "a", .column = "1", .answer = {}, .value = 20};
  for (const auto& [name, speed] : {std::pair("dp1", 20.0), std::pair("dp2", 10.0)}) {
    auto& layout = place.answer.layouts.emplace_back();
    layout.name = name;
    layout.tokens_per_s_per_gpu = speed;
  }
  return place;
}

/// The only cell, with the answer that the store gave for it.
HeatmapCell only(std::vector<CellCandidate> candidates, std::vector<AnsweredPlace> answers = {},
    const HeatmapRequest& request = {}) {
  auto heatmap = pivot({.candidates = std::move(candidates),
                           .note = "",
                           .runners = {},
                           .columns = "",
                           .answers = std::move(answers)},
      request);
  REQUIRE(heatmap.cells.size() == 1);
  return heatmap.cells[0][0];
}

}  // namespace

TEST_CASE("a cell shows its best layout and counts the rest") {
  const auto answered = dp1_before_dp2();
  const auto cell =
      only({ended("a", "1", Outcome::completed, true, 2), ended("a", "1", Outcome::oom),
               open("a", "1", State::planned), infeasible("a", "1")},
          {answered});
  HeatmapCell wanted{"completed", ' ', 20.0, "dp1", 4, 2, 1, 3};
  wanted.answer = answered.answer;
  wanted.answer.open = 1;
  CHECK(cell == wanted);
}

TEST_CASE("a cell without a measurement says what is under way or how it ended") {
  CHECK(only({ended("a", "1", Outcome::oom), open("a", "1", State::planned)}).status == "planned");
  CHECK(only({open("a", "1", State::queued), open("a", "1", State::planned)}).status == "queued");
  CHECK(only({open("a", "1", State::queued), open("a", "1", State::running)}).status == "running");
  CHECK(only({ended("a", "1", Outcome::skipped, false, 9), ended("a", "1", Outcome::oom)}).mark ==
      'M');
  CHECK(only({ended("a", "1", Outcome::skipped)}).status == "skipped");
  CHECK(only({ended("a", "1", Outcome::hung, false, 2), ended("a", "1", Outcome::oom)}).status ==
      "hung");
  CHECK(only({ended("a", "1", Outcome::completed), ended("a", "1", Outcome::oom)}).status ==
      "unranked");
  CHECK(only({infeasible("a", "1")}).status == "infeasible");
}

TEST_CASE("every cell has a status also where the sweep has no point") {
  const auto heatmap = pivot({{ended("small", "2", Outcome::completed, true),
                                  ended("tiny", "10", Outcome::oom), infeasible("tiny", "1")},
                                 "a note"},
      {.rows = "model", .columns = "nodes", .value = "mfu"});
  CHECK(heatmap.rows == std::vector<std::string>{"small", "tiny"});
  CHECK(heatmap.columns == std::vector<std::string>{"1", "2", "10"});
  CHECK(heatmap.cells[0][0] == HeatmapCell{});
  CHECK(heatmap.cells[0][0].status == "none");
  CHECK(heatmap.cells[1][2].status == "oom");
  CHECK(heatmap.value_name == "mfu");
  CHECK(heatmap.note == "a note");
  CHECK(pivot({}, {}).cells.empty());
}

TEST_CASE("labels stand in natural order and the order has no ring") {
  std::vector<std::string> labels{"llama-13b", "10", "llama-7b", "2", "1e3", "1f", "-1", "0.5", "",
      "007", "7", "nan", "a", "a0", "inf"};
  std::sort(labels.begin(), labels.end(),
      [](const auto& a, const auto& b) { return natural_less(a, b); });
  CHECK(labels ==
      std::vector<std::string>{"-1", "0.5", "2", "007", "7", "10", "1e3", "", "1f", "a", "a0",
          "inf", "llama-7b", "llama-13b", "nan"});
  for (const auto& a : labels) {
    CHECK_FALSE(natural_less(a, a));
    for (const auto& b : labels) {
      for (const auto& c : labels) {
        if (natural_less(a, b) && natural_less(b, c)) CHECK(natural_less(a, c));
      }
    }
  }
}

TEST_CASE("a cell keeps what the table ranks first where tokens per second say another") {
  auto fast = ended("a", "1", Outcome::completed, true);
  fast.published_mfu = 0.4;
  fast.published_layout = "dp1";
  fast.published_tokens_per_s_per_gpu = 20;
  auto praised = ended("a", "1", Outcome::completed, true);
  praised.published_layout = "dp4 pp2";
  praised.published_mfu = 0.44;
  praised.published_tokens_per_s_per_gpu = 18;
  auto cell = only({fast, praised}, {dp1_before_dp2()});
  CHECK(cell.layout == "dp1");
  CHECK(cell.published_layout == "dp4 pp2");
  CHECK(cell.published_tokens_per_s_per_gpu == 18);
  CHECK(cell.published_gap == doctest::Approx(0.1));
  praised.published_mfu = 0.39;
  cell = only({praised, fast}, {dp1_before_dp2()});
  CHECK(cell.published_layout.empty());
  CHECK(cell.published_tokens_per_s_per_gpu == 0);
}

TEST_CASE("a prediction stands where something may still be measured, and nowhere else") {
  auto planned = open("a", "1", State::planned);
  planned.predicted = 30;
  planned.predicted_tokens_per_s_per_gpu = 30;
  planned.predicted_layout = "dp8";
  CHECK(only({planned}).predicted == 30.0);
  CHECK(only({planned}).predicted_layout == "dp8");
  CHECK_FALSE(only({planned, ended("a", "1", Outcome::completed, true)}).predicted);
  auto spared = ended("a", "1", Outcome::skipped);
  spared.spared = true;
  spared.predicted = spared.predicted_tokens_per_s_per_gpu = 7;
  CHECK(only({spared}).predicted == 7.0);
  auto oom = ended("a", "1", Outcome::oom);
  oom.predicted = oom.predicted_tokens_per_s_per_gpu = 7;
  CHECK_FALSE(only({oom}).predicted);
}

TEST_CASE("a cell without a value says why") {
  auto oom = ended("a", "1", Outcome::oom, false, 2);
  oom.why = "rank 3: out of memory";
  auto hung = ended("a", "1", Outcome::hung);
  hung.why = "no progress";
  CHECK(only({hung, oom}).why == "rank 3: out of memory");
  auto heads = infeasible("a", "1");
  heads.why = "heads: 12 heads cannot be divided by tp 8";
  auto memory = infeasible("a", "1");
  memory.why = "memory: needs 91 GiB";
  memory.trials = 30;
  CHECK(only({heads, memory}).why == "memory: needs 91 GiB");
  CHECK(only({memory, heads}).why == "memory: needs 91 GiB");
}

TEST_CASE("aggregates are of all layouts of a cell, and are measured numbers") {
  auto some = ended("a", "1", Outcome::completed, true, 4);
  some.values = {9, 1, 5, 3};
  auto more = open("a", "1", State::running);
  more.ranked = true;
  more.values = {7};
  const auto with = [&](Aggregate aggregate) {
    HeatmapRequest request;
    request.aggregate = aggregate;
    return only({some, more}, {dp1_before_dp2()}, request);
  };
  CHECK(with(Aggregate::best).value == 20.0);
  CHECK(with(Aggregate::median).value == 5.0);
  CHECK(with(Aggregate::median).layout.empty());
  CHECK(with(Aggregate::p90).value == 7.0);
  CHECK(with(Aggregate::count).value == 4.0);
}

TEST_CASE("a point whose dp was never known makes no column dp 0") {
  HeatmapRequest request;
  request.rows = "micro_batch";
  request.columns = "dp";
  const Cells cells{
      {ended("1", "2", Outcome::completed, true), infeasible("1", "0"), infeasible("1", "4")}, ""};
  const auto heatmap = pivot(cells, request);
  CHECK(heatmap.columns == std::vector<std::string>{"2", "4"});
  // A var or another axis may well be 0.
  request.columns = "zero";
  CHECK(pivot(cells, request).columns == std::vector<std::string>{"0", "2", "4"});
}
