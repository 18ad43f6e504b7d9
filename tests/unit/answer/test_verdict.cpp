// SPDX-License-Identifier: Apache-2.0
// The one table of verdicts, its noise and its words.
#include "answer/verdict.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

SpeedVerdict plain(Difference difference, Open open, double share) {
  SpeedVerdict verdict{.difference = difference, .open = open, .share = share};
  verdict.first_runs = verdict.second_runs = 5;
  return verdict;
}

/// Of the second to the first, as `compare` asks.
SpeedVerdict judge(const LayoutSpeed& first, const LayoutSpeed& second) {
  return compared(second, first, common_noise({first, second}), 0.01);
}

}  // namespace

TEST_CASE("the noise of a run comes from the spread of several") {
  CHECK_FALSE(noise_of_run({100, 1, {}}));
  CHECK(*noise_of_run({100, 2, 0.02}) == doctest::Approx(0.02 / 1.128));
  CHECK_FALSE(common_noise({{100, 1, {}}}).known());
  const auto noise = common_noise({{100, 3, 0.03}, {90, 3, 0.03}, {80, 3, 0.6}});
  CHECK(noise.freedom == 6);
  CHECK(noise.of_run == doctest::Approx(0.03 / 1.693 / 0.938));  // the odd one does not count
}

TEST_CASE("steps that vary bound the noise of a run from below") {
  CHECK(step_noise_of(0, 10) == 0);
  CHECK(step_noise_of(0.7, 1) == 0);
  CHECK(step_noise_of(0.7, 10) == doctest::Approx(0.7 / 2.97 * 1.2533 / 2).epsilon(0.05));
  CHECK(step_noise_of(0.7, 10000) > 0.1);  // neighbours are slow together
}

TEST_CASE("one verdict and its reverse say the same") {
  const Noise noise{0.005, 10};
  const auto verdict = compared({110, 3, 0.01}, {100, 3, 0.01}, noise, 0.01);
  CHECK(verdict.difference == Difference::faster);
  const auto back = reversed(verdict);
  const auto direct = compared({100, 3, 0.01}, {110, 3, 0.01}, noise, 0.01);
  CHECK(back.difference == Difference::slower);
  CHECK(back.share == doctest::Approx(direct.share));
  CHECK(direct.difference == Difference::slower);
}

TEST_CASE("a gap that logs round away is not decided") {
  const auto verdict =
      compared({100.5, 3, 0.001, 0.004}, {100, 3, 0.001, 0.004}, {0.001, 10}, 0.001);
  CHECK(verdict.difference == Difference::undecided);
  CHECK(verdict.within_rounding);
  CHECK(verdict.reason.find("round away") != std::string::npos);
}

TEST_CASE("faster by the clock alone is open") {
  const auto verdict =
      compared({103, 3, 0.002, 0, 1545}, {100, 3, 0.002, 0, 1500}, {0.001, 10}, 0.01);
  CHECK(verdict.open == Open::clocks);
  CHECK(short_form(verdict) == "open");
}

TEST_CASE("each verdict has one sentence and one short form") {
  struct Row {
    Difference difference;
    Open open;
    const char* text;
    const char* short_form;
  };
  for (const Row& row :
      {Row{Difference::faster, Open::nothing, "faster by 3.0 % (5 runs each)", "faster"},
          Row{Difference::slower, Open::nothing, "slower by 3.0 % (5 runs each)", "slower"},
          Row{Difference::same, Open::nothing, "tie: 3.0 % (5 runs each)", "tie"},
          Row{Difference::undecided, Open::overlapping, "tie: 3.0 % (5 runs each)", "tie"},
          Row{Difference::undecided, Open::too_little_data, "3.0 % ahead (5 runs each)", "open"},
          Row{Difference::undecided, Open::clocks,
              "open: 3.0 % ahead, but only because of its SM clock (5 runs each)", "open"},
          Row{Difference::undecided, Open::load,
              "open: 3.0 % ahead (5 runs each), but other processes used the CPUs", "open"},
          Row{Difference::undecided, Open::mixed_state,
              "open: 3.0 % ahead, but not on all nodes (5 runs each)", "open"}}) {
    const auto verdict = plain(row.difference, row.open, 0.03);
    CHECK(verdict_text(verdict) == row.text);
    CHECK(short_form(verdict) == row.short_form);
  }
  SpeedVerdict pairs = plain(Difference::faster, Open::nothing, 0.03);
  pairs.half_width = 0.01;
  pairs.pairs = 12;
  CHECK(verdict_text(pairs) == "faster by 3.0 % +/- 1.0 % (12 pairs)");
  SpeedVerdict once = plain(Difference::undecided, Open::too_little_data, 0.17);
  once.first_runs = once.second_runs = 1;
  CHECK(short_form(once) == "1 run");
}

TEST_CASE("a change is named once its interval says so") {
  const LayoutSpeed before{100, 4, 0.002};
  CHECK(judge(before, {103, 4, 0.002}).difference == Difference::faster);
  CHECK(judge(before, {97, 4, 0.002}).difference == Difference::slower);
  const auto same = judge(before, {100.01, 4, 0.002});
  CHECK(same.difference == Difference::same);
  CHECK(same.reason == "95 % interval of the difference: -0.2 % to +0.2 %, within 1.0 %");
  const auto wide = judge({100, 2, 0.1}, {102, 2, 0.1});
  CHECK(wide.difference == Difference::undecided);
  CHECK(wide.reason.ends_with("; cannot be decided at this noise"));
  const auto narrow = judge({100, 2, 0.02}, {102, 2, 0.02});
  CHECK(narrow.reason.find("; about ") != std::string::npos);
}

TEST_CASE("without a repeat nothing is decided, however large the change") {
  const auto verdict = judge({100, 1, {}}, {50, 1, {}});
  CHECK(verdict.difference == Difference::undecided);
  CHECK_FALSE(verdict.half_width);
  CHECK(verdict.reason == "noise unknown: no layout ran twice on either side");
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
      return LayoutSpeed{runs[1], 3, (runs[2] - runs[0]) / runs[1]};
    };
    // The common noise comes from many layouts: here it is known.
    const auto change = compared(measured(), measured(), {0.01, 1000}, 0.01).difference;
    wrong += change == Difference::faster || change == Difference::slower ? 1 : 0;
  }
  CHECK(wrong < rounds / 20);
}

TEST_CASE("a change of the clock alone is not one of the layout") {
  const auto run = [](double speed, double clock) {
    return LayoutSpeed{speed, 4, 0.002, 0, clock};
  };
  const auto by_clock = judge(run(100, 1900), run(103, 1957));
  CHECK(by_clock.difference == Difference::undecided);
  CHECK(by_clock.reason ==
      "+3.0 % because of its SM clock: 1957 MHz against 1900 MHz; in clock cycles the difference "
      "is +0.0 %. Runs at the same clock would decide it");
  CHECK(judge(run(100, 1900), run(103, 1900)).difference == Difference::faster);
  // Faster by more than its clock.
  CHECK(judge(run(100, 1900), run(110, 1957)).difference == Difference::faster);
  CHECK(judge(run(100, 1957), run(97, 1900)).difference == Difference::undecided);
  // A clock that is not known says nothing.
  CHECK(judge(run(100, 0), run(103, 1957)).difference == Difference::faster);
}

TEST_CASE("what both logs round away is no difference, however often they ran") {
  const LayoutSpeed before{100, 9, 0.001, 0.004};
  const auto verdict = judge(before, {99.3, 9, 0.001, 0.004});
  CHECK(verdict.difference == Difference::undecided);
  CHECK(verdict.reason.ends_with("; within the 0.8 % that their logs round away"));
  CHECK(judge(before, {98, 9, 0.001, 0.004}).difference == Difference::slower);
  const auto once = judge({100, 1, {}, 0.004}, {99.3, 1, {}, 0.004});
  CHECK(once.reason == "-0.7 % is within the 0.8 % that their logs round away");
}
