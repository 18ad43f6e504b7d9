// SPDX-License-Identifier: Apache-2.0
// How much of a plan a search may run at most.
#pragma once

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

}  // namespace shardsweep
