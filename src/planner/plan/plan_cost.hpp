// SPDX-License-Identifier: Apache-2.0
// What of a plan is run at most, and what that takes: its search, which may end before the plan
// does, and the finals of its cells, which the plan's own trials do not contain. Both are known
// before anything is submitted, by the predicted seconds of the trials.
#pragma once

#include "search/value.hpp"

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>

namespace shardsweep {

// The likely effort of a search, before anything is submitted: it is played on its own
// predictions. Each play draws how far these are off, as far as the search itself expects, and
// launches, measures and stops as the daemon would. Cells do not learn from each other here, and
// nothing is remembered of earlier sweeps: with these a search is shorter.

/// Predicted cost of launches, until attempts have shown the real one.
[[nodiscard]] LaunchCost launch_cost(const SweepSpec& sweep);

struct Rehearsal {
  std::int64_t least_runs = 0;
  std::int64_t most_runs = 0;
  double least_gpu_hours = 0;
  double most_gpu_hours = 0;
  /// GPU-hours in the middle of the likely range.
  [[nodiscard]] double middle_gpu_hours() const { return (least_gpu_hours + most_gpu_hours) / 2; }
  [[nodiscard]] bool played() const { return most_runs > 0; }
};

/// Plays the search a few times and returns the least and the most. Plays nothing if measurements
/// do not end the search, or if a play would take more than a second or two.
[[nodiscard]] Rehearsal rehearse(const SweepSpec& sweep, const Plan& plan);

struct SearchBound {
  std::int64_t runs = 0;
  double gpu_hours = 0;  ///< predicted, of the longest trials of each cell
  bool binds = false;    ///< search.until.runs or search.until.gpu_hours is less than the plan
};

/// Each cell ends when one of its limits is used up. A trial that runs then runs to its end.
[[nodiscard]] SearchBound search_bound(const SweepSpec& sweep, const Plan& plan);

/// Cost of the finals of a plan's cells.
struct FinalsCost {
  std::int64_t cells = 0;  ///< cells with at least two layouts
  std::int64_t runs = 0;   ///< runs of a round, while no layout has dropped out
  double gpu_hours = 0;    ///< cost of a round with the layouts that are predicted the fastest
  std::int32_t rounds_at_most = 0;
  // Figures of a round on each further set of nodes; each cell has as many rounds at most.
  std::int32_t further_sets = 0;
  std::int64_t further_runs = 0;
  double further_gpu_hours = 0;
};
[[nodiscard]] FinalsCost finals_cost(const SweepSpec& sweep, const Plan& plan);

/// GPU-hours by which a search without finals would be shorter with them, whose own rounds are
/// not counted: its trials would be short at first. `likely`: the search as it is, played. If it
/// can't be played, hours of all trials. 0: it has finals, or is no search.
[[nodiscard]] double hours_of_whole_runs(
    const SweepSpec& sweep, const Plan& plan, const Rehearsal& likely);

}  // namespace shardsweep
