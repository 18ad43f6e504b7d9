// SPDX-License-Identifier: Apache-2.0
// What the finals of a plan's cells take.
#pragma once

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>

namespace shardsweep {

struct FinalsCost {
  std::int64_t cells = 0;  ///< with two layouts at least
  std::int64_t runs = 0;   ///< of a round, while nothing has dropped out
  double gpu_hours = 0;    ///< of a round: of the layouts that are predicted the fastest
  std::int32_t rounds_at_most = 0;
  // Of a round on each further set of nodes, of which each cell has as many rounds at most.
  std::int32_t further_sets = 0;
  std::int64_t further_runs = 0;
  double further_gpu_hours = 0;
};
[[nodiscard]] FinalsCost finals_cost(const SweepSpec& sweep, const Plan& plan);

}  // namespace shardsweep
