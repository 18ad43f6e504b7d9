// SPDX-License-Identifier: Apache-2.0
#include "fleet/row_rules.hpp"

#include <shardsweep/invariant.hpp>
#include <shardsweep/moves.hpp>

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

}  // namespace shardsweep
