// SPDX-License-Identifier: Apache-2.0
// What is measured again, and when a drop is said: from rows.
#include "fleet/finals.hpp"
#include "fleet/remeasure.hpp"
#include "sweep/layout_text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

FinalsRow ranked_run(
    TrialId id, double speed, const std::string& layout = "dp2", const std::string& cell = "a") {
  return {.id = id, .cell = {cell}, .layout = layout, .tokens_per_s_per_gpu = speed};
}

std::vector<TrialId> layouts_due(const RemeasurePlan& plan) {
  std::vector<TrialId> due;
  for (const NewFinal& one : plan.due)
    due.push_back(one.of);
  return due;
}

/// Runs what is due until it is over; `speed` of a run, 0: it fails.
struct PlayedAgain {
  std::vector<FinalsRow> rows;
  RemeasureInput input;
  RemeasurePlan plan{};
  int runs = 0;
  double others_cpu = 0;

  void play(const std::function<double(const NewFinal&)>& speed) {
    for (int round = 0; round < 40; ++round) {
      plan = plan_remeasure(rows, input);
      if (plan.over) return;
      REQUIRE_FALSE(plan.due.empty());
      for (const NewFinal& one : plan.due)
        run(one, speed(one));
    }
    FAIL("it does not end");
  }

  void run(const NewFinal& one, double speed) {
    const auto base = std::find_if(
        rows.begin(), rows.end(), [&](const FinalsRow& row) { return row.id == one.of; });
    REQUIRE(base != rows.end());
    ++runs;
    rows.push_back({.id = 1000 + runs,
        .final_of = one.of,
        .again = one.again,
        .software = one.software,
        .final_round = one.round,
        .cell = base->cell,
        .layout = base->layout,
        .allocation = 7,
        .tokens_per_s_per_gpu = speed,
        .others_cpu = others_cpu});
  }
};

RemeasureInput new_program() {
  return {.asked = {.on = RemeasureOn::runner}, .was = "old", .is = "new"};
}

}  // namespace

TEST_CASE("what a run of this tick stores is what a later tick reads of it") {
  std::vector<FinalsRow> rows{{.id = 5, .final_of = 1}};
  AttemptRow attempt;
  attempt.id = 9;
  attempt.trial = 5;
  attempt.allocation = 7;
  attempt.counted = true;
  attempt.ended_at = 11;
  attempt.ending = Ending{.outcome = Outcome::completed, .others_cpu = 0.25};
  AddMeasurement measured;
  measured.attempt = 9;
  measured.metrics = {{"tokens_per_s_per_gpu", 100}, {"steps", 8}};
  measured.hosts = R"(["n2","n1","n2"])";
  const std::vector<Change> changes{PutAttempt{attempt}, measured};
  hear_changes(rows, changes);
  CHECK(rows[0].tokens_per_s_per_gpu == 100);
  CHECK(rows[0].others_cpu == 0.25);
  CHECK(hosts_text(rows[0].hosts) == "n1 n2");
  CHECK(rows[0].ended_at == 11);
  CHECK(hosts_text("").empty());
  CHECK(hosts_text(R"({"n1": 1})").empty());
}

TEST_CASE("the best layouts of each cell are measured again by their medians") {
  std::vector<FinalsRow> rows{ranked_run(1, 100, "x"), ranked_run(2, 120, "y"),
      ranked_run(3, 90, "y"), ranked_run(4, 91, "y"), ranked_run(5, 95, "z"),
      ranked_run(6, 10, "w", "b"), ranked_run(7, 0, "failed")};
  RemeasureInput input{.asked = {.every_s = 1, .layouts = 2}};
  CHECK(layouts_due(plan_remeasure(rows, input)) == std::vector<TrialId>{1, 5, 6});
  // Those that have begun go on, whatever else is fast now.
  rows.push_back({.id = 20,
      .final_of = 2,
      .again = 1,
      .final_round = 1,
      .cell = {"a"},
      .layout = "y",
      .open = true});
  const auto plan = plan_remeasure(rows, input);
  CHECK(plan.due.empty());
  CHECK_FALSE(plan.over);
}

TEST_CASE("the winner of the finals is measured again, and is no run of theirs") {
  // The second layout was lucky in the search.
  std::vector<FinalsRow> rows{ranked_run(1, 100, "x"), ranked_run(2, 105, "y")};
  for (std::int32_t round = 1; round <= 6; ++round) {
    for (const auto& base : {rows[0], rows[1]}) {
      FinalsRow run = base;
      run.id = 10 * round + base.id;
      run.final_of = base.id;
      run.final_round = round;
      run.final_set = 1;
      run.allocation = 1;
      run.tokens_per_s_per_gpu = base.id == 1 ? 100 + 0.1 * round : 95;
      rows.push_back(run);
    }
  }
  const auto plan = plan_remeasure(rows, {.asked = {.every_s = 1, .layouts = 1}});
  REQUIRE(layouts_due(plan) == std::vector<TrialId>{1});
  CHECK(plan.due[0].set == 0);
}

TEST_CASE("a run as fast as before ends it after one run") {
  PlayedAgain played{{ranked_run(1, 100), ranked_run(2, 101), ranked_run(3, 99)}, {}};
  played.play([](const NewFinal&) { return 100; });
  CHECK(played.runs == 1);
  REQUIRE(played.plan.found.size() == 1);
  CHECK_FALSE(played.plan.found[0].slower);
}

TEST_CASE("one slow run is repeated and is no regression") {
  PlayedAgain played{{ranked_run(1, 100), ranked_run(2, 100.5), ranked_run(3, 99.5)}, {}};
  played.play([](const NewFinal& one) { return one.round == 1 ? 90 : 100; });
  CHECK(played.runs > 1);
  CHECK(played.runs <= most_single_rounds);
  CHECK_FALSE(played.plan.found[0].slower);
}

TEST_CASE("a drop that stays is said with its evidence after three runs") {
  PlayedAgain played{{ranked_run(1, 100), ranked_run(2, 100.5), ranked_run(3, 99.5)}, {}};
  played.play([](const NewFinal& one) { return 95 + 0.1 * one.round; });
  CHECK(played.runs == 3);
  CHECK(played.plan.found[0].slower);
  CHECK(played.plan.found[0].of == 1);
  CHECK(played.plan.found[0].text.find("dp2: slower by") == 0);
  CHECK(played.plan.found[0].text.find("3 runs now, 3 runs before") != std::string::npos);
}

TEST_CASE("a machine that became slower is said once and stands until it is as fast again") {
  PlayedAgain played{{ranked_run(1, 100), ranked_run(2, 100), ranked_run(3, 100)}, {}};
  const auto time = [&](double speed) {
    played.play([&](const NewFinal&) { return speed; });
    REQUIRE(played.plan.found.size() == 1);
    ++played.input.number;
    return played.plan.found[0];
  };
  const auto first = time(60);
  CHECK(first.kind == EventKind::regressed);
  CHECK(first.text == "dp2: slower by 40.0 % +/- 0.0 % (3 runs each) (3 runs now, 3 runs before)");
  played.input.slower = {1};
  const auto second = time(60);
  CHECK(second.kind == EventKind::still_regressed);
  // Slow runs are none of those before.
  CHECK(second.text.find("dp2: slower by 40.0 % +/- 0.0 %") == 0);
  CHECK(time(30).kind == EventKind::regressed);
  CHECK(time(100).kind == EventKind::remeasured);
}

TEST_CASE("a drop beside load is no regression") {
  PlayedAgain played{{ranked_run(1, 100), ranked_run(2, 100), ranked_run(3, 100)}, {}};
  played.others_cpu = 0.5;
  played.play([](const NewFinal&) { return 60; });
  CHECK(played.plan.found[0].kind == EventKind::remeasured);
  CHECK(played.plan.found[0].text.find("dp2: open: 40.0 % behind") == 0);
  CHECK(played.plan.found[0].text.find("other processes used the CPUs") != std::string::npos);
  // The next time does not make it as fast as before.
  ++played.input.number;
  played.play([](const NewFinal&) { return 60; });
  CHECK(played.plan.found[0].kind == EventKind::remeasured);
  CHECK(played.plan.found[0].text.find("dp2: open: 40.0 % behind") == 0);
}

TEST_CASE("a layout that fails now and was measured before is a regression") {
  PlayedAgain played{{ranked_run(1, 100)}, {}};
  played.play([](const NewFinal&) { return 0; });
  CHECK(played.runs == 2);
  CHECK(played.plan.found[0].slower);
  CHECK(played.plan.found[0].text == "dp2: failed twice, but was measured successfully before");
}

TEST_CASE("a changed program runs in pairs with the one before it in alternating order") {
  const RemeasureInput input{
      .asked = {.on = RemeasureOn::runner}, .was = "aaaaaaaaaaaaaaaa", .is = "bbbbbbbbbbbbbbbb"};
  std::vector<FinalsRow> rows{ranked_run(1, 100)};
  auto plan = plan_remeasure(rows, input);
  REQUIRE(plan.due.size() == 2);
  CHECK(plan.due[0].before);
  CHECK(plan.due[0].software == input.was);
  CHECK(plan.due[1].software == input.is);
  for (const NewFinal& one : plan.due)
    rows.push_back({.id = 30,
        .final_of = 1,
        .again = 1,
        .software = one.software,
        .final_round = 1,
        .cell = {"a"},
        .layout = "dp2",
        .allocation = 7,
        .tokens_per_s_per_gpu = 100});
  plan = plan_remeasure(rows, input);
  REQUIRE(plan.due.size() == 2);
  CHECK_FALSE(plan.due[0].before);
  CHECK(plan.due[1].before);
}

TEST_CASE("beside a noise of 2 % a change of 5 % is found and none is made up") {
  int found = 0;
  int alarms = 0;
  constexpr int seeds = 200;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, 0.02);
    PlayedAgain slow{{ranked_run(1, 100)}, new_program()};
    slow.play(
        [&](const NewFinal& one) { return (one.before ? 100 : 95) * std::exp(normal(random)); });
    found += slow.plan.found[0].slower ? 1 : 0;
    PlayedAgain same{{ranked_run(1, 100)}, new_program()};
    same.play([&](const NewFinal&) { return 100 * std::exp(normal(random)); });
    alarms += same.plan.found[0].slower ? 1 : 0;
  }
  MESSAGE(found << " of " << seeds << " found, " << alarms << " false alarms");
  CHECK(found >= seeds * 90 / 100);
  CHECK(alarms <= seeds * 2 / 100);
}

TEST_CASE("a new program that never comes to a result is a regression if the old one does") {
  PlayedAgain played{{ranked_run(1, 100)}, new_program()};
  played.play([](const NewFinal& one) { return one.before ? 100 : 0; });
  CHECK(played.runs == 4);
  CHECK(played.plan.found[0].slower);
  CHECK(played.plan.found[0].text.find("fails in each of 2 runs") != std::string::npos);
}

TEST_CASE("what is cancelled says nothing") {
  const std::vector<FinalsRow> rows{ranked_run(1, 100),
      {.id = 2,
          .final_of = 1,
          .again = 1,
          .final_round = 1,
          .cell = {"a"},
          .layout = "dp2",
          .cancelled = true}};
  const auto plan = plan_remeasure(rows, {});
  CHECK(plan.over);
  REQUIRE(plan.found.size() == 1);
  CHECK_FALSE(plan.found[0].slower);
}
