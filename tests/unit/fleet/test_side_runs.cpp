// SPDX-License-Identifier: Apache-2.0
// Which side runs are due, from rows.
#include "fleet/finals.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

using namespace shardsweep;

namespace {

FinalsRow measured(TrialId id, double speed, const std::string& cell = "a") {
  return {.id = id,
      .cell = {cell},
      .layout = fmt::format("layout {}", id),
      .tokens_per_s_per_gpu = speed};
}

FinalsRow run_in_finals(TrialId id, TrialId of, std::int32_t round, double speed) {
  FinalsRow row = measured(id, speed);
  row.layout = fmt::format("layout {}", of);
  row.final_of = of;
  row.final_round = round;
  row.final_set = 1;
  row.allocation = 1;
  return row;
}

FinalsRow beside(TrialId id, TrialId of, SideRun side, bool open = false) {
  return {.id = id, .final_of = of, .side = side, .cell = {"a"}, .open = open};
}

FinalsRow without_memory(TrialId id) {
  return {.id = id, .cell = {"a"}, .out_of_memory = true};
}

/// "profile 2, memory 3"
std::string due(const std::vector<FinalsRow>& rows, const SideRuns& wanted = {true, true},
    const Measure& measure = {}) {
  std::string text;
  for (const NewFinal& one : due_side_runs(rows, measure, wanted)) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", word_of(one.side), one.of);
    CHECK(one.round == 0);
  }
  return text;
}

}  // namespace

TEST_CASE("the winner of each cell is profiled when nothing measured is to come in it") {
  CHECK(due({measured(1, 100), measured(2, 120), measured(3, 90, "b")}) == "profile 2, profile 3");
  CHECK(due({measured(1, 100), measured(2, 120)}, {false, true}).empty());
  FinalsRow waits = measured(4, 0);
  waits.open = true;
  CHECK(due({measured(1, 100), measured(2, 120), waits, measured(3, 90, "b")}) == "profile 3");
  CHECK(due({measured(1, 0)}).empty());
}

TEST_CASE("a layout is as fast as the middle of its repeats") {
  std::vector<FinalsRow> rows{
      measured(1, 100), measured(2, 100), measured(3, 150), measured(4, 90), measured(5, 90)};
  for (const std::size_t repeat : {2UL, 3UL, 4UL})
    rows[repeat].layout = "layout b";
  rows[1].layout = "layout 1";
  CHECK(due(rows) == "profile 1");
}

TEST_CASE("a profile is made once, and one of another winner again") {
  for (const bool open : {false, true}) {
    CHECK(due({measured(1, 100), measured(2, 120), beside(9, 2, SideRun::profile, open)}).empty());
  }
  CHECK(due({measured(1, 130), measured(2, 120), beside(9, 2, SideRun::profile)}) == "profile 1");
}

TEST_CASE("after finals their winner is profiled, however fast it was before") {
  std::vector<FinalsRow> rows{measured(1, 130), measured(2, 120)};
  for (std::int32_t round = 1; round <= 2; ++round) {
    rows.push_back(run_in_finals(10 * round + 1, 1, round, 100));
    rows.push_back(run_in_finals(10 * round + 2, 2, round, 105));
  }
  const Measure measure{.finalists = 2, .final_rounds = 2};
  CHECK(due(rows, {true, false}, measure) == "profile 2");
  rows.back().open = true;
  CHECK(due(rows, {true, false}, measure).empty());
}

TEST_CASE("of finalists that can't be told apart the one that best names is profiled") {
  std::vector<FinalsRow> rows{measured(1, 130), measured(2, 120)};
  const std::vector<double> first{8000, 100, 8100};
  const std::vector<double> second{8050, 50, 8150};
  for (std::int32_t round = 1; round <= 3; ++round) {
    const auto at = static_cast<std::size_t>(round) - 1;
    rows.push_back(run_in_finals(10 * round + 1, 1, round, first[at]));
    rows.push_back(run_in_finals(10 * round + 2, 2, round, second[at]));
  }
  CHECK(due(rows, {true, false}, {.finalists = 2, .final_rounds = 3}) == "profile 2");
}

TEST_CASE("of a cell's layouts that ran out of memory the first ones get a snapshot, once") {
  std::vector<FinalsRow> rows{measured(1, 100)};
  for (TrialId id = 2; id < 10; ++id)
    rows.push_back(without_memory(id));
  CHECK(due(rows, {false, true}) == "memory 2, memory 3, memory 4, memory 5");
  CHECK(due(rows, {false, false}).empty());
  FinalsRow own = beside(20, 2, SideRun::memory);
  own.out_of_memory = true;  // that it ends so is what it is for
  rows.push_back(own);
  CHECK(due(rows, {false, true}) == "memory 3, memory 4, memory 5");
  for (TrialId of = 3; of < 6; ++of)
    rows.push_back(beside(20 + of, of, SideRun::memory));
  CHECK(due(rows, {false, true}).empty());
}
