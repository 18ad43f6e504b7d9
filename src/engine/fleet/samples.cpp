// SPDX-License-Identifier: Apache-2.0
#include "fleet/samples.hpp"

#include "fleet/row_rules.hpp"

#include <shardsweep/invariant.hpp>

#include <algorithm>

namespace shardsweep {
namespace {

void check_trial(const World& world, const TrialRow& row) {
  check_row(row);
  INVARIANT(world.index().agrees(row), "the index says of a trial what its row says", row.id,
      row.state, row.outcome, row.hidden);
  // A trial's state follows from its attempts.
  std::int64_t open = 0;
  bool runs = false;
  for (const AttemptId id : world.index().attempts_at(row.id)) {
    const AttemptRow* attempt = world.attempt(id);
    if (attempt == nullptr || attempt->state == State::ended || attempt->revoked) continue;
    ++open;
    runs = runs || attempt->state == State::running;
  }
  const bool begun = row.state == State::queued || row.state == State::running;
  INVARIANT(open <= 1, "a trial has one attempt that may count", row.id, open);
  INVARIANT(row.state == State::ended || begun == (open == 1),
      "a trial that is queued or runs has an attempt, and one that waits has none", row.id,
      row.state, open);
  INVARIANT(!begun || runs == (row.state == State::running), "a trial runs when its attempt does",
      row.id, row.state, runs);
}

void check_attempt(const World& world, const AttemptRow& row) {
  check_row(row);
  INVARIANT(world.index().agrees(row), "the index says of an attempt what its row says", row.id,
      row.state, row.allocation, row.trial);
  if (row.state == State::ended) return;
  const AllocationRow* allocation = world.allocation(row.allocation);
  INVARIANT(allocation != nullptr && allocation->state != State::ended,
      "the allocation of an attempt that has not ended has not ended either", row.id, row.state,
      row.allocation);
  INVARIANT(world.trial(row.trial) != nullptr, "an attempt that is not over has its trial", row.id,
      row.trial);
}

void check_allocation(const World& world, const AllocationRow& row) {
  check_row(row);
  INVARIANT(
      world.index().agrees(row), "the index finds an allocation by its token", row.id, row.token);
  INVARIANT(world.sweep(row.sweep) != nullptr || row.state == State::ended,
      "an allocation that is not over has its sweep", row.id, row.sweep);
}

SweepId sweep_of(const World&, const TrialRow& row) {
  return row.sweep;
}
SweepId sweep_of(const World&, const AllocationRow& row) {
  return row.sweep;
}
SweepId sweep_of(const World& world, const AttemptRow& row) {
  const TrialRow* trial = world.trial(row.trial);
  return trial == nullptr ? 0 : trial->sweep;
}

/// The rows after `last`, round and round, each at most once.
template <class Rows, class Check>
void check_next(const World& world, const Rows& rows, std::int64_t& last,
    const std::set<SweepId>& apart, const Check& check) {
  const auto count = std::min<std::size_t>(Samples::rows_per_pass, rows.size());
  auto next = rows.upper_bound(last);
  for (std::size_t i = 0; i < count; ++i, ++next) {
    if (next == rows.end()) next = rows.begin();
    const auto& row = next->second;
    last = row.id;
    const SweepId sweep = sweep_of(world, row);
    if (!apart.contains(sweep)) in_work_of(sweep, [&] { check(world, row); });
  }
}

}  // namespace

void Samples::check(const World& world, const std::set<SweepId>& apart) {
  INVARIANT(world.index().known_trials() == world.trials().size(),
      "the index knows as many trials as there are", world.index().known_trials(),
      world.trials().size());
  check_next(world, world.trials(), trial_, apart, check_trial);
  check_next(world, world.attempts(), attempt_, apart, check_attempt);
  check_next(world, world.allocations(), allocation_, apart, check_allocation);
}

}  // namespace shardsweep
