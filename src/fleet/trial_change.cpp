// SPDX-License-Identifier: Apache-2.0
#include "fleet/trial_change.hpp"

#include <utility>

namespace shardsweep {
namespace {

/// Infrastructure failures and cancelled trials say nothing about a layout.
bool says_something(Outcome outcome) {
  return outcome != Outcome::cancelled && info(outcome).retry != Retry::elsewhere;
}

bool prior_holds(const TrialRow& trial, const TrialEnd& end) {
  if (!trial.prior) return false;
  if (*trial.prior == Outcome::completed) return !end.counted;
  const bool nothing_ran = end.outcome == Outcome::cancelled || end.outcome == Outcome::skipped;
  return nothing_ran && *trial.prior != end.outcome;
}

}  // namespace

SetTrial trial_change(const TrialRow& row, std::string cause) {
  return {.id = row.id,
          .state = row.state,
          .outcome = row.outcome,
          .cause = std::move(cause),
          .charged = row.charged,
          .elsewhere = row.elsewhere,
          .attempts = row.attempts,
          .prior = row.prior,
          .cancelled_by = row.cancelled_by};
}

void plan_again(TrialRow& trial) {
  if (trial.outcome && says_something(*trial.outcome)) trial.prior = trial.outcome;
  trial.state = State::planned;
  trial.outcome.reset();
  trial.cancelled_by = CancelledBy::nobody;
}

SetTrial end_trial(TrialRow& trial, TrialEnd end) {
  const bool restores = prior_holds(trial, end);
  trial.state = State::ended;
  trial.outcome = restores ? trial.prior : end.outcome;
  trial.cancelled_by =
      trial.outcome == Outcome::cancelled ? end.cancelled_by : CancelledBy::nobody;
  trial.prior.reset();
  SetTrial change = trial_change(trial, std::move(end.cause));
  change.restores = restores;
  return change;
}

}  // namespace shardsweep
