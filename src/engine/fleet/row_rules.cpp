// SPDX-License-Identifier: Apache-2.0
#include "fleet/row_rules.hpp"

#include "fleet/world.hpp"

#include <shardsweep/invariant.hpp>
#include <shardsweep/moves.hpp>

#include <algorithm>

namespace shardsweep {

void check_row(const TrialRow& row) {
  INVARIANT((row.state == State::ended) == row.outcome.has_value(),
      "a trial has an outcome if and only if it has ended", row.id, row.sweep, row.state,
      row.outcome);
  INVARIANT(row.cancelled_by == CancelledBy::nobody || row.outcome == Outcome::cancelled,
      "only a trial that ended cancelled was cancelled by someone", row.id, row.outcome,
      row.cancelled_by);
  INVARIANT(row.charged >= 0 && row.elsewhere >= 0, "failures are counted from 0", row.id,
      row.charged, row.elsewhere);
}

void check_row(const AttemptRow& row) {
  INVARIANT((row.state == State::ended) == row.ending.has_value(),
      "an attempt has an outcome if and only if it has ended", row.id, row.trial, row.state,
      row.outcome());
  INVARIANT(!row.counted || (row.outcome() == Outcome::completed && !row.revoked),
      "what is counted was completed, and nobody had taken it back", row.id, row.trial,
      row.outcome(), row.revoked);
}

void check_row(const AllocationRow& row) {
  INVARIANT(row.state != State::planned, "an allocation is asked for from its first day on", row.id,
      row.token);
  INVARIANT(row.from_lead_n >= 0, "lines of a lead are counted from 0", row.id, row.from_lead_n);
}

void check_row(const SweepRow& row) {
  INVARIANT(row.failed_starts >= 0 && row.failed_nodes >= 0, "failures are counted from 0", row.id,
      row.failed_starts, row.failed_nodes);
}

void check_change(const TrialRow& before, const TrialRow& after) {
  INVARIANT(may_move(trial_moves, before.state, after.state),
      "a trial moves as moves.hpp allows it", after.id, before.state, after.state, after.outcome);
  INVARIANT(before.id == after.id && before.sweep == after.sweep, "a trial stays in its sweep",
      before.id, after.id, before.sweep, after.sweep);
  INVARIANT(after.attempts >= before.attempts, "attempts of a trial are not forgotten", after.id,
      before.attempts, after.attempts);
  check_row(after);
}

void check_change(const AttemptRow& before, const AttemptRow& after) {
  INVARIANT(may_move(attempt_moves, before.state, after.state),
      "an attempt moves as moves.hpp allows it", after.id, after.trial, before.state, after.state,
      after.outcome());
  INVARIANT(before.trial == after.trial && before.allocation == after.allocation &&
          before.number == after.number && before.nonce == after.nonce,
      "an attempt stays that of its trial and its allocation", after.id, before.trial, after.trial,
      before.allocation, after.allocation);
  INVARIANT(before.state != State::ended || before.outcome() == after.outcome(),
      "how an attempt has ended does not change", after.id, before.outcome(), after.outcome());
  INVARIANT(before.state != State::ended || before.counted || !after.counted,
      "an attempt is counted with its end or never", after.id, after.trial, after.outcome());
  check_row(after);
}

void check_change(const AllocationRow& before, const AllocationRow& after) {
  INVARIANT(may_move(allocation_moves, before.state, after.state),
      "an allocation moves as moves.hpp allows it", after.id, before.state, after.state,
      after.job_state);
  INVARIANT(
      before.token == after.token && before.sweep == after.sweep && before.nodes == after.nodes,
      "an allocation stays what was asked for", after.id, before.token, after.token, before.sweep,
      after.sweep, before.nodes, after.nodes);
  INVARIANT(after.from_lead_n >= before.from_lead_n, "no line of a lead is folded in twice",
      after.id, before.from_lead_n, after.from_lead_n);
  check_row(after);
}

void check_change(const SweepRow& before, const SweepRow& after) {
  INVARIANT(may_move(sweep_moves, before.state, after.state),
      "a sweep moves as moves.hpp allows it", after.id, before.state, after.state);
  INVARIANT(before.id == after.id && before.name == after.name, "a sweep keeps its name", before.id,
      after.id, before.name, after.name);
  check_row(after);
}

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
