// SPDX-License-Identifier: Apache-2.0
// Decision: A trial that is measured again keeps its outcome and its counted measurement until
// a new measurement is stored.
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

void plan_again(TrialRow& trial) {
  if (trial.outcome && says_something(*trial.outcome)) {
    trial.prior = trial.outcome;
    trial.prior_cause = trial.cause;
  }
  trial.cause.clear();
  trial.state = State::planned;
  trial.outcome.reset();
  trial.fragmented = false;
  trial.cancelled_by = CancelledBy::nobody;
}

void end_trial(TrialRow& trial, TrialEnd end) {
  const bool restores = prior_holds(trial, end);
  trial.state = State::ended;
  trial.outcome = restores ? trial.prior : end.outcome;
  trial.cancelled_by = trial.outcome == Outcome::cancelled ? end.cancelled_by : CancelledBy::nobody;
  trial.cause = restores ? trial.prior_cause : std::move(end.cause);
  trial.prior.reset();
  trial.prior_cause.clear();
}

}  // namespace shardsweep
