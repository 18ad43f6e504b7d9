// SPDX-License-Identifier: Apache-2.0
// Where a sweep stands and what moves it on: the one rule, for `status`, for followers and for
// `shardsweep` alone.
#pragma once

#include <shardsweep/results.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

enum class Standing : std::uint8_t {
  runs,
  waits,       ///< a daemon has it, and none of its trials runs
  paused,      ///< or being cancelled
  outside,     ///< `next` hands its points out
  unattended,  ///< no daemon runs, and one is needed
  imported,
  cancelled,  ///< ended, but some trials have no result
  ended
};
[[nodiscard]] Standing standing_of(const SweepStatus& sweep, bool daemon_runs);

/// Reason why nothing of a sweep runs, in the words of `status`; empty if none is known.
[[nodiscard]] std::string why_it_waits(const SweepStatus& sweep);

/// "1 min 20 s": predicted run time of what has not ended. If nothing runs and a reason is known,
/// the wait is not in it: "1 min 20 s of runs". "unknown" without a prediction, empty at the end.
[[nodiscard]] std::string time_left(const SweepStatus& sweep);

/// "'demo' waits: 2 of 4 trials have ended. The partition is full."
[[nodiscard]] std::string standing_text(const SweepStatus& sweep, bool daemon_runs);

}  // namespace shardsweep
