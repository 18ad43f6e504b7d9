// SPDX-License-Identifier: Apache-2.0
// How a trial ends and how it is planned again. An outcome that was reached stays until a new
// one is durable: no command and no failure takes a measurement away.
#pragma once

#include <shardsweep/world.hpp>

#include <string>

namespace shardsweep {

/// Stores of `row` what a run changes in it. `cause`: the first evidence of its outcome, one
/// line.
[[nodiscard]] SetTrial trial_change(const TrialRow& row, std::string cause);

/// Makes a trial wait for another attempt. An outcome that says something about the layout is
/// kept as the prior one.
void plan_again(TrialRow& trial);

/// How a trial comes to its end.
struct TrialEnd {
  Outcome outcome = Outcome::lost;
  std::string cause;
  bool counted = false;  ///< completed, and its measurement becomes the counted one
  CancelledBy cancelled_by = CancelledBy::nobody;
};

/// Ends a trial. Where it had an outcome before it was run again, and this end tells less, the
/// earlier outcome is restored.
[[nodiscard]] SetTrial end_trial(TrialRow& trial, TrialEnd end);

}  // namespace shardsweep
