// SPDX-License-Identifier: Apache-2.0
// What a search will likely take, before anything is submitted: it is played on its own
// predictions. Each play draws how far these are off, as far as the search itself expects, and
// launches, measures and stops as the daemon would. Cells do not learn from each other here, and
// nothing is remembered of earlier sweeps: with these a search is shorter.
#pragma once

#include "search/value.hpp"

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>

namespace shardsweep {

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

}  // namespace shardsweep
