// SPDX-License-Identifier: Apache-2.0
#include "fleet/row_rules.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

template <class Work>
BrokenInvariant broken_by(const Work& work) {
  try {
    work();
  } catch (const BrokenInvariant& broken) {
    return broken;
  }
  FAIL("nothing was broken");
  return {"", "", "", ""};
}

}  // namespace

TEST_CASE("a broken invariant names its place, its condition and its values") {
  const int line = __LINE__ + 4;
  const auto broken = broken_by([] {
    const std::string name = "a";
    const std::optional<Outcome> outcome;
    INVARIANT(name.size() == 2, "a name has two letters", name, std::max(1, 2), outcome,
        State::queued, true);
  });
  CHECK(broken.place == "unit/fleet/test_row_rules.cpp:" + std::to_string(line));
  CHECK(broken.condition == "name.size() == 2");
  CHECK(broken.what_holds == "a name has two letters");
  CHECK(broken.values ==
      "name = 'a', std::max(1, 2) = 2, outcome = none, State::queued = queued, true = true");
  CHECK(broken.sweep == 0);
  CHECK(std::string(broken.what()).find(broken.values) != std::string::npos);
}

TEST_CASE("values have no text while the condition holds") {
  int made = 0;
  const auto text = [&made] { return std::to_string(++made); };
  INVARIANT(made == 0, "nothing is made", text());
  CHECK(made == 0);
}

TEST_CASE("the innermost sweep is blamed, and an exception that nobody expected as well") {
  const auto broken =
      broken_by([] { in_work_of(1, [] { in_work_of(2, [] { INVARIANT(false, "never"); }); }); });
  CHECK(broken.sweep == 2);
  const int line = __LINE__ + 1;
  const auto unexpected = broken_by([] { in_work_of(3, [] { (void)std::vector<int>().at(7); }); });
  CHECK(unexpected.sweep == 3);
  CHECK_FALSE(unexpected.condition.empty());
  CHECK(unexpected.place == "unit/fleet/test_row_rules.cpp:" + std::to_string(line));
}

TEST_CASE("a trial moves as its table says") {
  Case c;
  const TrialRow& row = c.trial(1, 1);
  const auto broken = broken_by([&] { c.world.edit(row)->state = State::running; });
  CHECK(broken.sweep == 1);
  CHECK(broken.values.find("before.state = planned, after.state = running") != std::string::npos);
  CHECK(c.world.changes().empty());
}

TEST_CASE("an attempt ends once, and is counted with its end") {
  Case c;
  c.trial(1, 1);
  c.decide();
  const AttemptRow& row = c.attempt(1);
  SUBCASE("it has an outcome when it has ended") {
    broken_by([&] { c.world.edit(row)->state = State::ended; });
  }
  SUBCASE("only what was completed counts") {
    broken_by([&] {
      auto edit = c.world.edit(row);
      edit->state = State::ended;
      edit->ending = {.outcome = Outcome::oom};
      edit->counted = true;
    });
  }
  SUBCASE("another outcome is none") {
    c.end(1, Outcome::oom);
    broken_by([&] { c.world.edit(row)->ending = {.outcome = Outcome::lost}; });
  }
  SUBCASE("it does not run again") {
    c.end(1, Outcome::oom);
    broken_by([&] { c.world.edit(row)->state = State::running; });
  }
  SUBCASE("it is not another trial's") {
    broken_by([&] { c.world.edit(row)->trial = 2; });
  }
}

TEST_CASE("an allocation that is closed stays so, and stays what was asked for") {
  Case c;
  c.trial(1, 1);
  c.decide();
  const AllocationRow& row = c.allocation();
  SUBCASE("closed") {
    fold_gone(c.fold(), c.policy, row.id, {{1, {}}}, "test");
    broken_by([&] { c.world.edit(row)->state = State::running; });
  }
  SUBCASE("another size") {
    broken_by([&] { c.world.edit(row)->nodes = 7; });
  }
  SUBCASE("with what is in it") {
    broken_by([&] { fold_gone(c.fold(), c.policy, row.id, {}, "test"); });
  }
}

TEST_CASE("a cancelled sweep is not paused") {
  Case c;
  c.rows.sweeps.at(1).state = SweepState::cancelled;
  const auto broken =
      broken_by([&] { c.world.edit(c.rows.sweeps.at(1))->state = SweepState::paused; });
  CHECK(broken.sweep == 1);
}

TEST_CASE("an edit that an exception ends records nothing") {
  Case c;
  const TrialRow& row = c.trial(1, 1);
  CHECK_THROWS_AS(
      [&] {
        auto edit = c.world.edit(row);
        edit->cause = "half";
        throw std::runtime_error("test");
      }(),
      std::runtime_error);
  CHECK(c.world.changes().empty());
}
