// SPDX-License-Identifier: Apache-2.0
// What of a plan is run at most, and what that takes: its search, which may end before the plan
// does, and the finals of its cells, which the plan's own trials do not contain. Both are known
// before anything is submitted, by the predicted seconds of the trials.
#pragma once

#include "plan/rehearsal.hpp"

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>

namespace shardsweep {

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
