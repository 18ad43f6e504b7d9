// SPDX-License-Identifier: Apache-2.0
// A plan cell by cell: in which order a search would launch, what it expects of each layout,
// and what is left out by which rule.
#pragma once

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

struct PlannedLaunch {
  Point point;
  double tokens_per_s_per_gpu = 0;
  double sigma = 0;  ///< spread of the speed's logarithm
  double fits = 1;   ///< chance that memory suffices
  double gpu_hours = 0;
  std::string why;
};

/// One cell: model x sequence length x nodes or GPUs, and the values of free axes.
struct PlannedCell {
  std::string model;
  std::int32_t seq_len = 0;
  std::int32_t nodes = 0;
  std::int32_t gpus = 0;
  std::vector<PlannedLaunch> launches;  ///< launches in the plan's order
  std::vector<LeftOut> left_out;        ///< points that the plan has kept
};

/// Story of the plan before any measurement.
[[nodiscard]] std::vector<PlannedCell> plan_story(const SweepSpec& sweep, const Plan& plan);

}  // namespace shardsweep
