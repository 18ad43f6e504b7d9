// SPDX-License-Identifier: Apache-2.0
// Whether a trainer is told each axis of a sweep. A layout that its command line, files and
// world do not say is measured under a label that is not its own, and no log shows it. So a
// sweep with such an axis is refused before anything is submitted.
//
// An axis that varies is told if its placeholder gives another text for each of its values, if
// it follows from axes that are told (dp from the world, grad_accum from the batch), or if the
// trainer's words, read back, say it. An axis of one value may stay untold if the value is what
// a trainer does without being asked: one rank of a kind, no ZeRO, no recompute.
#pragma once

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

/// An axis that a trainer is not told, or is told otherwise.
struct Untold {
  const AxisInfo* axis = nullptr;
  std::vector<std::int64_t> values;  ///< values of the plan's trials, ascending
  std::string said;  ///< setting in the command in place of a trial's value; empty: none
};

/// The first placeholder that can't be computed at one of the trials, in a sentence; empty:
/// none.
[[nodiscard]] std::string uncomputed_text(
    const SweepSpec& sweep, std::span<const PlannedTrial> trials);

/// Parts of a model that its trainer is not told, though it is told the model's size: experts,
/// tied embeddings; empty: nothing.
[[nodiscard]] std::string untold_model_text(const SweepSpec& sweep);

/// Axes that the trainer is not told, in the order of axes. A runner that keeps to our contract has
/// none.
[[nodiscard]] std::vector<Untold> untold_axes(
    const SweepSpec& sweep, std::span<const PlannedTrial> trials);

/// Sizes that a trainer of the user's own is not told, in sentences; empty: none. Its log need not
/// show them, so nothing else would tell that they are others.
[[nodiscard]] std::string believed_text(
    const SweepSpec& sweep, std::span<const PlannedTrial> trials);

/// A sentence for each, with the words that would tell it; empty: all is told.
[[nodiscard]] std::string untold_text(const SweepSpec& sweep, std::span<const Untold> untold);

}  // namespace shardsweep
