// SPDX-License-Identifier: Apache-2.0
// Whatever changes, in whatever order: the index says what a scan of all rows would say.
#include "fleet/trial_change.hpp"
#include "fleet/world.hpp"

#include <shardsweep/moves.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ostream>
#include <random>
#include <utility>

using namespace shardsweep;

namespace {

/// As the world has them now.
WorldRows rows_of(const World& world) {
  WorldRows rows;
  rows.trials = world.trials();
  rows.attempts = world.attempts();
  rows.allocations = world.allocations();
  return rows;
}

TrialRow a_trial(TrialId id, std::mt19937& random) {
  TrialRow row{.id = id, .sweep = 1 + static_cast<SweepId>(random() % 2)};
  row.lane = fmt::format("lane{}", random() % 6);
  row.micro_batch = 1 << (random() % 4);
  row.nodes = static_cast<std::int32_t>(random() % 3);
  row.position = static_cast<std::int64_t>(random() % 20);
  row.predicted_s = 0.1 * static_cast<double>(random() % 100);
  row.hidden = random() % 5 == 0;
  return row;
}

WorldRows some_rows(std::mt19937& random) {
  WorldRows rows;
  for (const SweepId id : {1, 2})
    rows.sweeps[id] = {.id = id, .name = fmt::format("s{}", id)};
  for (TrialId id = 1; id <= 40; ++id)
    rows.trials[id] = a_trial(id, random);
  return rows;
}

template <class Rows>
const auto& any_of_them(const Rows& rows, std::mt19937& random) {
  auto at = rows.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random() % rows.size()));
  return at->second;
}

/// As the tables of moves.hpp allow it from both.
State drawn_move(const Moves<4>& moves, State from, State also_from, std::mt19937& random) {
  constexpr State states[] = {State::planned, State::queued, State::running, State::ended};
  for (;;) {
    const State to = states[random() % 4];
    if (may_move(moves, from, to) && may_move(moves, also_from, to)) return to;
  }
}

template <class Row>
void move_to(Row& row, State to, std::mt19937& random) {
  if (row.state == State::ended && to == State::ended) return;
  row.state = to;
  std::optional<Outcome> outcome;
  if (to == State::ended) outcome = random() % 2 == 0 ? Outcome::oom : Outcome::lost;
  if constexpr (requires { row.ending; }) {
    row.ending = outcome ? std::optional(Ending{*outcome}) : std::nullopt;
  } else {
    row.outcome = outcome;
  }
}

void change_something(World& world, std::mt19937& random) {
  const TrialRow& trial = any_of_them(world.trials(), random);
  switch (random() % 6) {
    case 0:
      world.add(AllocationRow{.sweep = trial.sweep, .token = fmt::format("t{}", random())});
      return;
    case 1:
      if (world.allocations().empty()) return;
      world.add(
          AttemptRow{.trial = trial.id, .allocation = any_of_them(world.allocations(), random).id});
      return;
    case 2:
      if (!world.attempts().empty()) {
        auto attempt = world.edit(any_of_them(world.attempts(), random));
        move_to(
            *attempt, drawn_move(attempt_moves, attempt->state, attempt->state, random), random);
      }
      return;
    case 3: {
      if (world.allocations().empty() || random() % 4 != 0) return;
      const AllocationRow& allocation = any_of_them(world.allocations(), random);
      world.edit(allocation)->state = State::ended;
      (void)world.forget_ended();
      return;
    }
    default: {
      // An edit within another of the same row.
      auto outer = world.edit(trial);
      const State from = outer->state;
      move_to(*outer, drawn_move(trial_moves, from, from, random), random);
      if (random() % 2 == 0) {
        auto inner = world.edit(trial);
        move_to(*inner, drawn_move(trial_moves, from, inner->state, random), random);
      }
    }
  }
}

}  // namespace

TEST_CASE("the index says what the rows say, after any changes") {
  std::mt19937 random(14);
  for (int round = 0; round < 20; ++round) {
    World world(some_rows(random));
    for (int step = 0; step < 200; ++step) {
      change_something(world, random);
      const bool same = world.index() == WorldIndex(rows_of(world));
      REQUIRE(same);
      const WorldIndex& index = world.index();
      for (const auto& [id, trial] : world.trials())
        REQUIRE(index.agrees(trial));
      for (const auto& [id, attempt] : world.attempts())
        REQUIRE(index.agrees(attempt));
      for (const auto& [id, allocation] : world.allocations())
        REQUIRE(index.agrees(allocation));
    }
  }
}

TEST_CASE("trials wait in order, by node count, with the sum of their times") {
  WorldRows rows;
  rows.sweeps[1] = {.id = 1, .name = "s"};
  for (TrialId id = 1; id <= 3; ++id) {
    TrialRow& row = rows.trials[id] = {.id = id, .sweep = 1};
    row.nodes = id == 3 ? 2 : 0;
    row.position = 10 - id;
    row.predicted_s = static_cast<double>(id) + 0.1;
  }
  World world(std::move(rows));
  const TrialQueues& waiting = world.index().waiting(1);
  REQUIRE(waiting.size() == 2);
  CHECK(waiting.at(1).first() == 2);
  CHECK(waiting.at(1).predicted().sum_s() == doctest::Approx(3.2));
  CHECK(waiting.at(1).predicted().longest_s() == doctest::Approx(2.1));
  world.edit(*world.trial(2))->state = State::queued;
  world.edit(*world.trial(3))->state = State::queued;
  world.edit(*world.trial(3))->state = State::running;
  CHECK(waiting.at(1).first() == 1);
  CHECK(waiting.size() == 1);
  CHECK(world.index().any_begun());
  CHECK(world.index().is_open(1));
}

TEST_CASE("orders to an allocation are new where something of it has changed, and no other") {
  WorldRows rows;
  rows.sweeps[1] = {.id = 1, .name = "s"};
  rows.trials[1] = {.id = 1, .sweep = 1};
  rows.trials[2] = {.id = 2, .sweep = 1};
  rows.nodes["n"] = {.node = "n"};
  World world(std::move(rows));
  const AllocationId one = world.add(AllocationRow{.sweep = 1, .token = "a"}).id;
  const AllocationId other = world.add(AllocationRow{.sweep = 1, .token = "b"}).id;
  const AttemptRow& attempt = world.add(AttemptRow{.trial = 1, .allocation = one});
  std::uint64_t said = world.version_of(one);
  const std::uint64_t said_to_other = world.version_of(other);
  const auto is_new = [&] {
    return world.version_of(one) != std::exchange(said, world.version_of(one));
  };
  end_trial(*world.edit(*world.trial(2)), {.outcome = Outcome::oom});  // nobody runs it
  CHECK_FALSE(is_new());
  end_trial(*world.edit(*world.trial(1)), {.outcome = Outcome::oom});
  CHECK(is_new());
  world.edit(attempt)->revoked = true;
  CHECK(is_new());
  world.edit(*world.allocation(one))->draining = true;
  CHECK(is_new());
  world.add(ControlRow{.allocation = one, .sweep = 1});
  CHECK(is_new());
  CHECK(world.version_of(other) == said_to_other);
  world.edit(*world.sweep(1))->state = SweepState::paused;
  CHECK(is_new());
  CHECK(world.version_of(other) != said_to_other);
  world.edit(*world.node("n"))->state = NodeState::quarantined;
  CHECK(is_new());
}
