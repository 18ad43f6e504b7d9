// SPDX-License-Identifier: Apache-2.0
#include "show/pivot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>

using namespace shardsweep;

namespace {

CellCandidate ended(const char* row, const char* column, Outcome outcome,
                    std::optional<double> value = {}, std::int64_t trials = 1) {
  CellCandidate one;
  one.row = row;
  one.column = column;
  one.state = State::ended;
  one.outcome = outcome;
  one.value = one.tokens_per_s_per_gpu = value;
  if (value) one.layout = "dp1";
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

HeatmapCell only(std::vector<CellCandidate> candidates) {
  auto heatmap = pivot({std::move(candidates), ""}, {});
  REQUIRE(heatmap.cells.size() == 1);
  return heatmap.cells[0][0];
}

}  // namespace

TEST_CASE("a cell shows its best layout and counts the rest") {
  auto slower = ended("a", "1", Outcome::completed, 10);
  slower.layout = "dp2";
  const auto cell =
      only({slower, ended("a", "1", Outcome::completed, 20), ended("a", "1", Outcome::oom),
            open("a", "1", State::planned), infeasible("a", "1")});
  CHECK(cell == HeatmapCell{"completed", ' ', 20.0, "dp1", 4, 2, 1, 3});
}

TEST_CASE("the best is chosen by tokens per second whatever is shown") {
  auto fast = ended("a", "1", Outcome::completed, 20);
  fast.value = 5;
  auto slow = ended("a", "1", Outcome::completed, 10);
  slow.value = 7;
  CHECK(only({slow, fast}).value == 5.0);
}

TEST_CASE("a cell without a measurement says what is under way or how it ended") {
  CHECK(only({ended("a", "1", Outcome::oom), open("a", "1", State::planned)}).status ==
        "planned");
  CHECK(only({open("a", "1", State::queued), open("a", "1", State::planned)}).status ==
        "queued");
  CHECK(only({open("a", "1", State::queued), open("a", "1", State::running)}).status ==
        "running");
  CHECK(only({ended("a", "1", Outcome::skipped, {}, 9), ended("a", "1", Outcome::oom)}).mark ==
        'M');
  CHECK(only({ended("a", "1", Outcome::skipped)}).status == "skipped");
  CHECK(only({ended("a", "1", Outcome::hung, {}, 2), ended("a", "1", Outcome::oom)}).status ==
        "hung");
  CHECK(only({ended("a", "1", Outcome::completed), ended("a", "1", Outcome::oom)}).status ==
        "unranked");
  CHECK(only({infeasible("a", "1")}).status == "infeasible");
}

TEST_CASE("every cell has a status also where the sweep has no point") {
  const auto heatmap = pivot({{ended("small", "2", Outcome::completed, 1),
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
  std::vector<std::string> labels{"llama-13b", "10",  "llama-7b", "2",  "1e3",
                                  "1f",        "-1",  "0.5",      "",   "007",
                                  "7",         "nan", "a",        "a0", "inf"};
  std::sort(labels.begin(), labels.end(),
            [](const auto& a, const auto& b) { return natural_less(a, b); });
  CHECK(labels == std::vector<std::string>{"-1", "0.5", "2", "007", "7", "10", "1e3", "", "1f",
                                           "a", "a0", "inf", "llama-7b", "llama-13b", "nan"});
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
  auto fast = ended("a", "1", Outcome::completed, 20);
  fast.published_mfu = 0.4;
  fast.published_layout = fast.layout;
  fast.published_tokens_per_s_per_gpu = 20;
  auto praised = ended("a", "1", Outcome::completed, 18);
  praised.layout = praised.published_layout = "dp4 pp2";
  praised.published_mfu = 0.44;
  praised.published_tokens_per_s_per_gpu = 18;
  auto cell = only({fast, praised});
  CHECK(cell.layout == "dp1");
  CHECK(cell.published_layout == "dp4 pp2");
  CHECK(cell.published_tokens_per_s_per_gpu == 18);
  praised.published_mfu = 0.39;
  cell = only({praised, fast});
  CHECK(cell.published_layout.empty());
  CHECK(cell.published_tokens_per_s_per_gpu == 0);
}
