// SPDX-License-Identifier: Apache-2.0
#include "show/side_by_side.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>

using namespace shardsweep;

namespace {

/// As Reader::layouts() has them.
Side side(std::string name, std::vector<std::vector<Value>> rows) {
  Table table{{"model", "seq_len", "nodes", "gpus", "layout", "tokens_per_s_per_gpu", "sweep",
               "runner", "runner_version", "image", "repeats", "repeat_spread"},
              {}};
  for (auto& row : rows) {
    table.rows.push_back({std::string("tiny"), std::int64_t{32}, std::int64_t{1},
                          std::int64_t{8}, row[0], row[1], name, std::string("mine"),
                          std::string("1"), row[2], row[3], row[4]});
  }
  return {std::move(name), std::move(table)};
}

std::vector<Value> layout(const char* name, double speed, std::int64_t runs, double spread,
                          const char* image = "a") {
  return {std::string(name), speed, std::string(image), runs,
          runs > 1 ? Value(spread) : Value()};
}

constexpr double one_percent = 0.01;

}  // namespace

TEST_CASE("a change is named once its interval says so") {
  const Ranked before{100, 4, 0.002};
  CHECK(judge(before, {103, 4, 0.002}, {}, one_percent).difference == Difference::faster);
  CHECK(judge(before, {97, 4, 0.002}, {}, one_percent).difference == Difference::slower);
  const auto same = judge(before, {100.01, 4, 0.002}, {}, one_percent);
  CHECK(same.difference == Difference::same);
  CHECK(same.reason == "95 % interval -0.1 % to +0.1 %, within 1.0 %");
  const auto wide = judge({100, 2, 0.1}, {102, 2, 0.1}, {}, one_percent);
  CHECK(wide.difference == Difference::undecided);
  CHECK(wide.reason.find("; about ") != std::string::npos);
}

TEST_CASE("without a repeat nothing is decided, however large the change") {
  const auto verdict = judge({100, 1, {}}, {50, 1, {}}, {}, one_percent);
  CHECK(verdict.difference == Difference::undecided);
  CHECK_FALSE(verdict.half_width);
  CHECK(verdict.reason == "noise unknown: no layout ran twice on either side");
}

TEST_CASE("a change that both logs round away is none, however often they ran") {
  const Ranked before{100, 9, 0.001, 0.004};
  const auto verdict = judge(before, {99.3, 9, 0.001, 0.004}, {}, one_percent);
  CHECK(verdict.difference == Difference::undecided);
  CHECK(verdict.within_rounding);
  CHECK(verdict.reason.ends_with("; within the 0.8 % that their logs round away"));
  CHECK(judge(before, {98, 9, 0.001, 0.004}, {}, one_percent).difference == Difference::slower);
  const auto once = judge({100, 1, {}, 0.004}, {99.3, 1, {}, 0.004}, {}, one_percent);
  CHECK(once.reason == "-0.7 % is within the 0.8 % that their logs round away");
  auto coarse = side("a", {layout("dp8", 100, 9, 0.001)});
  auto later = side("b", {layout("dp8", 99.3, 9, 0.001)});
  for (auto* one : {&coarse, &later}) {
    one->layouts.columns.emplace_back("resolution");
    one->layouts.rows.front().emplace_back(0.004);
  }
  // No loss for CI to stop at, and no part of what names a cell.
  const auto both = side_by_side(coarse, later, "image", one_percent);
  CHECK(both.worst_loss == 0);
  CHECK(both.rows.rows.size() == 1);
}

TEST_CASE("of equal layouts one in twenty at most seems to differ") {
  std::mt19937_64 random(20);
  std::normal_distribution<double> noise(0, 0.01);
  constexpr int rounds = 4000;
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto measured = [&] {
      std::vector<double> runs(3);
      for (double& run : runs)
        run = 100 * (1 + noise(random));
      std::sort(runs.begin(), runs.end());
      return Ranked{runs[1], 3, (runs[2] - runs[0]) / runs[1]};
    };
    // The common noise comes from many layouts: here it is known.
    const auto change = judge(measured(), measured(), 0.01, one_percent).difference;
    wrong += change == Difference::faster || change == Difference::slower ? 1 : 0;
  }
  CHECK(wrong < rounds / 20);
}

TEST_CASE("layouts are joined by cell, and what has no partner is counted") {
  const auto before = side("a", {layout("dp8", 100, 2, 0.002), layout("dp4 tp2", 90, 2, 0.002),
                                 layout("tp8", 50, 2, 0.002)});
  const auto after = side("b", {layout("dp8", 95, 2, 0.002), layout("dp4 tp2", 97, 2, 0.002),
                                layout("pp8", 40, 2, 0.002)});
  const auto both = side_by_side(before, after, "sweep", one_percent);
  CHECK(both.rows.rows.size() == 2);
  CHECK(both.only_first == 1);
  CHECK(both.only_second == 1);
  CHECK(both.counts == std::array<std::int64_t, 4>{1, 1, 0, 0});
  CHECK(both.changed_winners == 1);
  CHECK(both.worst_loss == doctest::Approx(0.05));
  CHECK(both.worst_layout == "dp8");
  CHECK(summary_text(both, before, after) ==
        "2 layouts on both sides: 1 FASTER, 1 SLOWER. 1 only in a, 1 only in b. The winner "
        "changes in 1 of 1 cell.");
}

TEST_CASE("the column that is compared is no part of a cell, another var is") {
  const auto before = side("a", {layout("dp8", 100, 2, 0.002, "a")});
  const auto after = side("b", {layout("dp8", 95, 2, 0.002, "b")});
  CHECK(side_by_side(before, after, "image", one_percent).rows.rows.size() == 1);
  const auto apart = side_by_side(before, after, "sweep", one_percent);
  CHECK(apart.rows.rows.empty());
  CHECK(apart.only_first + apart.only_second == 2);
}

TEST_CASE("a loss that noise explains is none, one of unknown noise is kept apart") {
  const auto noisy = side_by_side(side("a", {layout("dp8", 100, 2, 0.1)}),
                                  side("b", {layout("dp8", 97, 2, 0.1)}), "sweep", one_percent);
  CHECK(noisy.worst_loss == 0);
  const auto once = side_by_side(side("a", {layout("dp8", 100, 1, 0)}),
                                 side("b", {layout("dp8", 97, 1, 0)}), "sweep", one_percent);
  CHECK(once.worst_loss == 0);
  CHECK(once.worst_unknown == doctest::Approx(0.03));
}

TEST_CASE("a limit stops CI at a layout that is SLOWER, and tells of one that is UNDECIDED") {
  const auto both = [](std::int64_t runs, double spread) {
    return side_by_side(side("a", {layout("dp8", 100, runs, spread)}),
                        side("b", {layout("dp8", 90, runs, spread)}), "sweep", one_percent);
  };
  const auto slower = judge_limit(both(4, 0.002), 0.02);
  CHECK(slower.code == ExitCode::failed);
  CHECK(slower.sentence ==
        "exit 1: dp8 is slower by 10.0 %; --fail-on allows less than 2.0 %.");
  const auto unknown = judge_limit(both(1, 0), 0.02);
  CHECK(unknown.code == ExitCode::undecided);
  CHECK(unknown.sentence ==
        "exit 3: dp8 seems slower by 10.0 %, but no layout ran twice, so the noise is unknown. "
        "Measure with `repeats` above 1.");
  CHECK(judge_limit(both(2, 0.2), 0.02).code == ExitCode::done);
  CHECK(judge_limit(both(1, 0), 0.2).code == ExitCode::done);
}

TEST_CASE("of several measurements of one layout the fastest counts") {
  const auto both = side_by_side(side("a", {layout("dp8", 80, 1, 0), layout("dp8", 100, 1, 0)}),
                                 side("b", {layout("dp8", 100, 1, 0)}), "sweep", one_percent);
  REQUIRE(both.rows.rows.size() == 1);
  CHECK(both.counts[static_cast<std::size_t>(Difference::undecided)] == 1);
  CHECK(both.worst_loss == 0);
}

TEST_CASE("a change of the clock alone is not one of the layout") {
  const auto run = [](double speed, double clock) { return Ranked{speed, 4, 0.002, 0, clock}; };
  const auto by_clock = judge(run(100, 1900), run(103, 1957), {}, one_percent);
  CHECK(by_clock.difference == Difference::undecided);
  CHECK(by_clock.reason ==
        "+3.0 % by its SM clock: 1957 MHz beside 1900 MHz; in clock cycles it is +0.0 %. Runs "
        "at one clock would tell");
  CHECK(judge(run(100, 1900), run(103, 1900), {}, one_percent).difference ==
        Difference::faster);
  // Faster by more than its clock.
  CHECK(judge(run(100, 1900), run(110, 1957), {}, one_percent).difference ==
        Difference::faster);
  CHECK(judge(run(100, 1957), run(97, 1900), {}, one_percent).difference ==
        Difference::undecided);
  // A clock that is not known says nothing.
  CHECK(judge(run(100, 0), run(103, 1957), {}, one_percent).difference == Difference::faster);
}
