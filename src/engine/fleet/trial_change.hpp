// SPDX-License-Identifier: Apache-2.0
// How a trial ends and how it is planned again. An outcome that was reached stays until a new
// one is durable: no command and no failure takes a measurement away.
#pragma once

#include <shardsweep/rows.hpp>

#include <string>

namespace shardsweep {

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

/// Ends a trial. If it had an outcome before it was run again, and the new end says less about the
/// layout, the earlier outcome is restored.
void end_trial(TrialRow& trial, TrialEnd end);

}  // namespace shardsweep
