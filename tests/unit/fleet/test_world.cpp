// SPDX-License-Identifier: Apache-2.0
// A row changes through World alone, and what changes is recorded for the next commit.
#include "fleet/world.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <variant>

using namespace shardsweep;

namespace {

WorldRows rows_with_trial() {
  WorldRows rows;
  rows.sweeps[1] = {.id = 1, .name = "s"};
  rows.trials[7] = {.id = 7, .sweep = 1, .slug = "t7"};
  rows.next_allocation = 5;
  return rows;
}

}  // namespace

TEST_CASE("an edit records its row where it differs, once") {
  World world(rows_with_trial());
  const TrialRow& trial = *world.trial(7);
  const auto before = world.version();
  world.edit(trial)->state = State::planned;  // as it is
  CHECK(world.changes().empty());
  CHECK(world.version() == before);
  {
    auto edit = world.edit(trial);
    edit->state = State::queued;
    edit->attempts = 1;
    CHECK(world.changes().empty());
  }
  REQUIRE(world.changes().size() == 1);
  const auto& set = std::get<SetTrial>(world.changes().front()).row;
  CHECK(set.state == State::queued);
  CHECK(set.attempts == 1);
  CHECK(trial.state == State::queued);
  CHECK(world.version() > before);
}

TEST_CASE("what is recorded is what the row is at last") {
  World world(rows_with_trial());
  const AllocationRow& row = world.add(AllocationRow{.sweep = 1, .token = "a"});
  CHECK(row.id == 5);
  {
    auto outer = world.edit(row);
    outer->draining = true;
    world.edit(row)->said_bye = true;  // somebody else's, meanwhile
  }
  const auto changes = world.take_changes();
  const auto& last = std::get<PutAllocation>(changes.back()).row;
  CHECK(last.draining);
  CHECK(last.said_bye);
  // One row after itself is written once.
  CHECK(changes.size() == 1);
  CHECK(world.changes().empty());
}

TEST_CASE("a change of another row in between keeps the order") {
  World world(rows_with_trial());
  world.edit(*world.trial(7))->state = State::queued;
  world.record(AddEvent{.trial = 7, .kind = EventKind::started});
  world.edit(*world.trial(7))->state = State::running;
  CHECK(world.changes().size() == 3);
}

TEST_CASE("a beat is no change until its row is recorded") {
  World world(rows_with_trial());
  const AllocationRow& row = world.add(AllocationRow{.sweep = 1, .token = "a"});
  (void)world.take_changes();
  const auto before = world.version();
  world.hear_beat(row, 3, 100, 105);
  CHECK(row.from_lead_n == 3);
  CHECK(row.heard_at == 105);
  CHECK(world.version() == before);
  world.edit(row)->draining = true;
  CHECK(std::get<PutAllocation>(world.changes().at(0)).row.from_lead_n == 3);
}

TEST_CASE("a step of the wall clock moves what is waited for by it") {
  WorldRows rows = rows_with_trial();
  rows.clock = {"boot", 1'000'000'000};
  World world(std::move(rows));
  const AllocationRow& row =
      world.add(AllocationRow{.sweep = 1, .token = "a", .missing_since = 50, .quiet_since = 60});
  world.hear_beat(row, 1, 100, 105);
  (void)world.take_changes();
  SUBCASE("by as much") {
    world.follow_clock({"boot", 1'150'000'000});
    CHECK(*row.heard_at == 150'000'105);
    CHECK(row.missing_since == 150'000'050);
    CHECK(row.quiet_since == 150'000'060);
    CHECK(row.submit_after == 0);
    CHECK(world.changes().size() == 2);
  }
  SUBCASE("but not where nobody knows how the clocks of two hosts differ") {
    world.follow_clock({"other", 5});
    CHECK(row.missing_since == 50);
    CHECK(world.clock() == ClockRow{"other", 5});
  }
  SUBCASE("and what passes between two looks at two clocks is no step") {
    world.follow_clock({"boot", 1'000'900'000});
    CHECK(world.changes().empty());
  }
}

TEST_CASE("rows that are read anew are news, and what is not committed yet stays") {
  World world(rows_with_trial());
  world.record(AddEvent{.kind = EventKind::started});
  const auto before = world.version();
  world.read({});
  CHECK(world.version() > before);
  CHECK(world.trial(7) == nullptr);
  CHECK(world.changes().size() == 1);
}

TEST_CASE("what has ended leaves memory, but not while its allocation lives") {
  World world(rows_with_trial());
  const AllocationRow& allocation = world.add(AllocationRow{.sweep = 1, .token = "a"});
  const AllocationId id = allocation.id;
  const AttemptRow& attempt = world.add(AttemptRow{.trial = 7, .number = 1, .allocation = id});
  {
    auto edit = world.edit(attempt);
    edit->state = State::ended;
    edit->ending = {.outcome = Outcome::oom};
  }
  CHECK(world.forget_ended().empty());
  CHECK(world.attempts().size() == 1);
  world.edit(allocation)->state = State::ended;
  CHECK(world.forget_ended() == std::vector<AllocationId>{id});
  CHECK(world.attempts().empty());
  CHECK(world.allocations().empty());
}
