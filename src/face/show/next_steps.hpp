// SPDX-License-Identifier: Apache-2.0
// How a sweep stands, and next steps as command lines: for `shardsweep` alone and after the first
// `run`.
#pragma once

#include <shardsweep/results.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

// The standing of a sweep and what moves it on: the one rule, for `status`, for followers and for
// `shardsweep` alone.

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

struct NextStepsForm {
  std::optional<std::size_t> width{};  ///< columns of the terminal; none: lines are not folded
  bool only_reading = false;           ///< the database is a copy, and refuses other commands
  bool daemon_runs = false;
  bool answer_was_told = false;  ///< a follower has told outcomes and `best`
};

/// The sweep that somebody most likely thinks of: one whose trials run, else the one that was
/// submitted, or had a trial end, last. `sweeps`: one at least.
[[nodiscard]] const SweepStatus& sweep_to_go_on_with(
    const std::vector<SweepStatus>& sweeps, bool daemon_runs);

/// Says where that sweep stands and how to go on with it; then where the other current ones stand.
[[nodiscard]] std::string next_steps(
    const std::vector<SweepStatus>& sweeps, const NextStepsForm& form);

enum class SlurmHere : std::uint8_t {
  none,
  silent,   ///< no cluster answers Slurm's commands
  answers,  ///< and no site file describes it
};

/// Steps of somebody who has no sweep.
[[nodiscard]] std::string first_steps(SlurmHere slurm, const NextStepsForm& form);

}  // namespace shardsweep
