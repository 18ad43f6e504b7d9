// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardsweep/world.hpp>

#include <string>
#include <utility>

namespace shardsweep {

/// Stores of `row` what a run changes in it. `cause`: the first evidence of its outcome, one
/// line.
[[nodiscard]] inline SetTrial trial_change(const TrialRow& row, std::string cause) {
  return {.id = row.id,
          .state = row.state,
          .outcome = row.outcome,
          .cause = std::move(cause),
          .charged = row.charged,
          .elsewhere = row.elsewhere,
          .attempts = row.attempts};
}

}  // namespace shardsweep
