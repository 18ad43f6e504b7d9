// SPDX-License-Identifier: Apache-2.0
// Who won a cell and how sure that is, from runs and finals.
#include "answer/answer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

using namespace shardsweep;

namespace {

MeasuredRun run(TrialId trial, double speed) {
  return {.trial = trial, .tokens_per_s_per_gpu = speed};
}

LayoutRuns layout(std::string name, std::vector<MeasuredRun> runs) {
  return {.name = std::move(name), .runs = std::move(runs)};
}

bool doubts(const CellAnswer& answer, DoubtKind kind) {
  return std::any_of(answer.doubts.begin(), answer.doubts.end(),
      [kind](const Doubt& one) { return one.kind == kind; });
}

/// Finals of the layouts of trials 1, 2, …: run `100 * layout + round` has the speed in its
/// column.
struct PlayedFinals {
  explicit PlayedFinals(const std::vector<std::vector<double>>& speeds) {
    std::vector<TrialId> finalists;
    std::vector<FinalRun> runs;
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      const auto finalist = static_cast<TrialId>(i + 1);
      finalists.push_back(finalist);
      // The run that brought it here was lucky.
      auto& one = cell.layouts.emplace_back(
          layout("l" + std::to_string(finalist), {run(finalist, 1000 - 10.0 * double(i))}));
      for (std::size_t round = 0; round < speeds[i].size(); ++round) {
        const auto trial = finalist * 100 + static_cast<TrialId>(round) + 1;
        one.runs.push_back(run(trial, speeds[i][round]));
        held.runs[finalist].push_back(trial);
        runs.push_back({.layout = finalist,
            .round = static_cast<std::int32_t>(round) + 1,
            .allocation = 1,
            .speed = speeds[i][round]});
      }
    }
    held.finals = finals_of(finalists, runs, held.settings);
    cell.finals = &held;
  }
  PlayedFinals(const PlayedFinals&) = delete;
  PlayedFinals& operator=(const PlayedFinals&) = delete;
  ~PlayedFinals() = default;

  CellRuns cell;
  HeldFinals held;
};

}  // namespace

TEST_CASE("nothing measured has no winner and no words") {
  const auto answer = answer_of({});
  CHECK(answer.winner() == nullptr);
  CHECK(certainty_text(answer).empty());
  CHECK(short_form(answer).empty());
}

TEST_CASE("one layout alone is no winner over anybody") {
  const auto answer = answer_of({.layouts = {layout("a", {run(1, 100)})}});
  REQUIRE(answer.winner() != nullptr);
  CHECK(certainty_text(answer) == "the only layout measured (1 run)");
  CHECK(short_form(answer) == "alone");
}

TEST_CASE("one run each is the fastest so far, and never the fastest") {
  const auto answer =
      answer_of({.layouts = {layout("a", {run(1, 100)}), layout("b", {run(2, 117)})}});
  CHECK(answer.winner()->name == "b");
  CHECK(answer.winner()->verdict.difference == Difference::undecided);
  CHECK(answer.winner()->verdict.open == Open::too_little_data);
  CHECK(certainty_text(answer) == "fastest so far: 17.0 % ahead (1 run each)");
  CHECK(short_form(answer) == "1 run");
  CHECK(doubts(answer, DoubtKind::one_run));
}

TEST_CASE("step times that vary by more than the gap are said") {
  MeasuredRun slow = run(1, 100);
  MeasuredRun fast = run(2, 117.2);
  fast.step_spread = 0.708;
  fast.steps = 10;
  const auto answer = answer_of({.layouts = {layout("a", {slow}), layout("b", {fast})}});
  CHECK(certainty_text(answer) ==
      "fastest so far: 17.2 % ahead (1 run each), but step times vary by 70.8 %: may be "
      "chance");
  slow.others_cpu = 0.4;
  CHECK(certainty_text(answer_of({.layouts = {layout("a", {slow}), layout("b", {fast})}})) ==
      "open: 17.2 % ahead (1 run each), but other processes used the CPUs and step times vary by "
      "70.8 %: may be chance");
}

TEST_CASE("the spread within runs is the floor of the noise between them") {
  // Repeats agree by chance; their steps say that they could not.
  std::vector<MeasuredRun> a{run(1, 100), run(2, 100.1), run(3, 100.2)};
  std::vector<MeasuredRun> b{run(4, 103), run(5, 103.1), run(6, 103.2)};
  CHECK(answer_of({.layouts = {layout("a", a), layout("b", b)}}).winner()->verdict.difference ==
      Difference::faster);
  for (auto* runs : {&a, &b}) {
    for (auto& one : *runs) {
      one.step_spread = 0.7;
      one.steps = 10;
    }
  }
  const auto answer = answer_of({.layouts = {layout("a", a), layout("b", b)}});
  CHECK(answer.winner()->verdict.open == Open::overlapping);
  CHECK(short_form(answer) == "tie");
}

TEST_CASE("repeats decide by an interval, and say it") {
  const auto answer = answer_of({.layouts = {layout("a", {run(1, 100), run(2, 101)}),
                                     layout("b", {run(3, 120), run(4, 121)})}});
  CHECK(answer.winner()->name == "b");
  CHECK(answer.winner()->verdict.difference == Difference::faster);
  CHECK(certainty_text(answer).find("faster by 20.0 % +/- ") == 0);
  CHECK(certainty_text(answer).find("(2 runs each)") != std::string::npos);
  CHECK(answer.winner()->half_width.has_value());
}

TEST_CASE("finals come before the runs that led to them") {
  // mb1 was the luckier one; the finals turn it round.
  const PlayedFinals played({{100, 101, 100, 101, 100, 101}, {104, 105, 104, 105, 104, 105}});
  const auto answer = answer_of(played.cell);
  CHECK(answer.by_finals);
  CHECK(answer.winner()->name == "l2");
  CHECK(answer.winner()->runs.size() == 6);
  CHECK(answer.winner()->verdict.difference == Difference::faster);
  CHECK(certainty_text(answer).find("(6 pairs)") != std::string::npos);
  CHECK(answer.layouts[1].verdict.difference == Difference::faster);
}

TEST_CASE("a layout outside the finals stands behind the finalists") {
  PlayedFinals played({{100, 101, 100, 101}, {104, 105, 104, 105}});
  played.cell.layouts.push_back(layout("other", {run(9, 980)}));
  const auto answer = answer_of(played.cell);
  REQUIRE(answer.layouts.size() == 3);
  CHECK(answer.layouts[2].name == "other");
  CHECK_FALSE(answer.layouts[2].in_finals);
}

TEST_CASE("of finalists that can't be told apart the highest median stands first") {
  // By pairs the first one leads, by its median the second one: N1.
  const PlayedFinals played({{8000, 100, 8100}, {8050, 50, 8150}});
  const auto answer = answer_of(played.cell);
  CHECK(answer.winner()->name == "l2");
  CHECK(answer.winner()->tokens_per_s_per_gpu == 8050);
  CHECK(answer.winner()->verdict.difference == Difference::undecided);
  CHECK(short_form(answer) != "faster");
  CHECK(certainty_text(answer).find(" -") == std::string::npos);
}

TEST_CASE("a finalist that is not asked for leaves the others their own verdicts") {
  // The third one is slower, the fourth one can't be told apart and has the highest median.
  PlayedFinals played({{1000, 1010, 1000, 1010, 1000, 1010}, {995, 1005, 995, 1005, 995, 1005},
      {985, 995, 985, 995, 985, 995}, {1010, 1020, 1010, 850, 1010, 1020}});
  const auto all = answer_of(played.cell);
  CHECK(all.winner()->name == "l4");
  played.cell.layouts.erase(played.cell.layouts.begin() + 2);
  const auto some = answer_of(played.cell);
  CHECK(some.winner()->name == "l4");
  CHECK(some.winner()->verdict.difference == all.winner()->verdict.difference);
}

TEST_CASE("without one of the two finalists the finals answer another question") {
  PlayedFinals played({{100, 101, 100, 101}, {104, 105, 104, 105}});
  played.cell.layouts.erase(played.cell.layouts.begin());
  played.cell.layouts.push_back(layout("other", {run(9, 50)}));
  const auto answer = answer_of(played.cell);
  CHECK_FALSE(answer.by_finals);
  CHECK(answer.winner()->name == "l2");
}

TEST_CASE("load, network, clocks and other sweeps make a lead doubtful") {
  auto a = layout("a", {run(1, 100), run(2, 100.5), run(3, 101)});
  auto b = layout("b", {run(4, 110), run(5, 110.5), run(6, 111)});
  CHECK(answer_of({.layouts = {a, b}}).doubts.empty());
  b.runs[1].others_cpu = 0.4;
  const auto loaded = answer_of({.layouts = {a, b}});
  CHECK(doubts(loaded, DoubtKind::load));
  CHECK(loaded.winner()->verdict.open == Open::load);
  CHECK(short_form(loaded) == "open");
  b.runs[1].others_cpu = 0;
  b.runs[1].network_ratio = 0.1;
  CHECK(answer_of({.layouts = {a, b}}).winner()->verdict.open == Open::mixed_state);
  b.runs[1].network_ratio = 0;
  b.elsewhere.push_back({"second", 40});
  const auto contradicted = answer_of({.layouts = {a, b}});
  CHECK(doubts(contradicted, DoubtKind::contradiction));
  CHECK(doubts_text(contradicted).find("sweep second measured 40 tokens/s/GPU of b") == 0);
  CHECK(
      doubts(answer_of({.layouts = {a, b}, .mixed = "mine 1, mine 2"}), DoubtKind::mixed_software));
}

TEST_CASE("a run beside others' load is ranked and decides nothing") {
  auto a = layout("a", {run(1, 100), run(2, 100.5), run(3, 101)});
  auto b = layout("b", {run(4, 110), run(5, 110.5), run(6, 111)});
  a.runs[1].others_cpu = 0.4;  // the loser may be the faster one
  const auto loser = answer_of({.layouts = {a, b}});
  CHECK(loser.winner()->name == "b");
  CHECK(loser.winner()->verdict.open == Open::load);
  CHECK(loser.settling.text == "run both again while no other process uses the CPUs");
  const auto once = answer_of({.layouts = {layout("a", {run(1, 100)}), layout("b", {b.runs[0]})}});
  CHECK(certainty_text(once) == "fastest so far: 10.0 % ahead (1 run each)");
  b.runs[0].others_cpu = 0.4;
  CHECK(certainty_text(
            answer_of({.layouts = {layout("a", {run(1, 100)}), layout("b", {b.runs[0]})}})) ==
      "open: 10.0 % ahead (1 run each), but other processes used the CPUs");
  // One that is far behind may have been slowed so far; what a quiet system uses slows nobody.
  auto c = layout("c", {run(7, 70)});
  c.runs[0].others_cpu = 0.5;
  a.runs[1].others_cpu = b.runs[0].others_cpu = 0;
  const auto third = answer_of({.layouts = {a, b, c}});
  CHECK(third.winner()->verdict.difference == Difference::faster);
  CHECK(doubts_text(third) ==
      "c is slower, but other processes used 50.0 % of the CPUs while it ran");
  c.runs[0].others_cpu = 0.05;
  CHECK(answer_of({.layouts = {a, b, c}}).doubts.empty());
}

TEST_CASE("what is measured and not ranked is named if it would lead") {
  const auto a = layout("a", {run(1, 100), run(2, 101)});
  CellRuns cell{.layouts = {a}};
  cell.unranked = UnrankedRun{"z", 200, "contaminated"};
  const auto answer = answer_of(cell);
  CHECK(doubts_text(answer) == "z measured 200 tokens/s/GPU and is not ranked: contaminated");
  cell.unranked->tokens_per_s_per_gpu = 50;
  CHECK(answer_of(cell).doubts.empty());
}

TEST_CASE("an answer over a part of the runs says so, and how to rank all") {
  auto answer = answer_of({.layouts = {layout("a", {run(1, 100)})}});
  add_left_out(answer, {});
  CHECK(doubts_text(answer).empty());
  add_left_out(answer, {.runs = 3, .software = "mine 1.1", .tokens_per_s_per_gpu = 90});
  CHECK(doubts_text(answer) == "3 runs of mine 1.1 are not ranked (--all-versions)");
  auto beaten = answer_of({.layouts = {layout("a", {run(1, 100)})}});
  add_left_out(beaten, {.runs = 1, .software = "mine 1.1", .tokens_per_s_per_gpu = 190});
  CHECK(doubts_text(beaten) ==
      "1 run of mine 1.1 is not ranked (--all-versions), up to 190 tokens/s/GPU");
}

TEST_CASE("an efficiency above 100 % is said of both cells") {
  auto one = answer_of({.layouts = {layout("a", {run(1, 100)})}});
  auto two = answer_of({.layouts = {layout("a", {run(2, 154)})}});
  auto four = answer_of({.layouts = {layout("a", {run(3, 150)})}});
  doubt_scaling({{4, &four}, {1, &one}, {2, &two}}, "GPU");
  const std::string said =
      "efficiency above 100 %: each of 2 GPUs does 154.0 % of the work that each of 1 GPU does";
  CHECK(doubts_text(one) == said);
  CHECK(doubts_text(two) == said);
  CHECK(doubts_text(four).empty());
}

TEST_CASE("an open answer says what would settle it and what that costs") {
  auto a = layout("a", {run(1, 100)});
  auto b = layout("b", {run(2, 101)});
  a.runs[0].gpu_hours = b.runs[0].gpu_hours = 0.25;
  const auto answer = answer_of({.layouts = {a, b}});
  CHECK(answer.settling.text == "about 6 pairs of final runs would decide it (3 GPU-h)");
  CHECK(answer.settling.gpu_hours == doctest::Approx(3));
}

TEST_CASE("cells of two values of a var join to one answer with the fastest winner") {
  const PlayedFinals played({{100, 101, 100, 101, 100, 101}, {104, 105, 104, 105, 104, 105}});
  const auto first = answer_of(played.cell);
  const auto second =
      answer_of({.layouts = {layout("c", {run(7, 90)}), layout("d", {run(8, 80)})}, .open = 3});
  const auto both = joined({second, first});
  CHECK(both.winner()->name == "l2");
  CHECK(both.by_finals);
  CHECK(both.open == 3);
  CHECK(both.layouts.size() == 4);
  const auto faster = answer_of({.layouts = {layout("e", {run(9, 200)})}});
  const auto three = joined({first, second, faster});
  CHECK(three.winner()->name == "e");
  CHECK_FALSE(three.by_finals);
  CHECK(three.winner()->verdict.open == Open::too_little_data);
}

TEST_CASE("of 500 noisy cells at most 5 % are wrongly called faster") {
  std::mt19937_64 random(20261125);
  int called = 0;
  int wrong = 0;
  for (int i = 0; i < 500; ++i) {
    const double noise = std::uniform_real_distribution(0.003, 0.05)(random);
    const auto runs = std::uniform_int_distribution(1, 5)(random);
    const auto count = std::uniform_int_distribution(2, 6)(random);
    // A third of the cells has layouts that are all alike.
    const double differ = i % 3 == 0 ? 0 : 3 * noise;
    CellRuns cell;
    std::vector<double> truth;
    TrialId trial = 0;
    for (int l = 0; l < count; ++l) {
      truth.push_back(100 * std::exp(differ * std::normal_distribution()(random)));
      auto& one = cell.layouts.emplace_back(layout(std::to_string(l), {}));
      for (int r = 0; r < runs; ++r)
        one.runs.push_back(
            run(++trial, truth.back() * std::exp(noise * std::normal_distribution()(random))));
    }
    const auto answer = answer_of(cell);
    if (answer.winner()->verdict.difference != Difference::faster) continue;
    ++called;
    const auto at = [&](std::size_t place) {
      return truth[static_cast<std::size_t>(std::stoi(answer.layouts[place].name))];
    };
    if (at(0) <= at(1)) ++wrong;
  }
  MESSAGE("called faster ", called, ", of these wrongly ", wrong);
  CHECK(wrong <= 25);
  CHECK(called >= 25);
}

TEST_CASE("a true 3 % at 1 % noise is said after 12 pairs") {
  std::mt19937_64 random(20261126);
  int said = 0;
  int wrong = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<std::vector<double>> speeds(2);
    const bool alike = i % 2 == 1;
    for (int round = 0; round < 12; ++round) {
      const double drift = 1 + 0.02 * std::sin(round);
      for (std::size_t l = 0; l < 2; ++l)
        speeds[l].push_back((l == 0 || alike ? 100 : 103) * drift *
            std::exp(0.01 * std::normal_distribution()(random)));
    }
    const PlayedFinals played(speeds);
    const auto answer = answer_of(played.cell);
    const bool faster = answer.winner()->verdict.difference == Difference::faster;
    if (!alike && faster && answer.winner()->name == "l2") ++said;
    if (faster && (alike || answer.winner()->name == "l1")) ++wrong;
  }
  MESSAGE("said of 250: ", said, ", wrongly of 500: ", wrong);
  CHECK(said >= 225);
  CHECK(wrong <= 25);
}
