// SPDX-License-Identifier: Apache-2.0
// From a sweep to its plan: expand, judge, predict, order.
#pragma once

#include <shardsweep/capabilities.hpp>
#include <shardsweep/filter.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

namespace shardsweep {

/// `excludes` is compiled from sweep.excludes and `runner_rules` from runner.rules, in their
/// order; null where there are none. The order is the same for the same input: lanes by nodes,
/// then GPUs, then predicted tokens/s per GPU, best first; within a lane by micro_batch, then
/// grad_accum, then repeat, ascending.
/// Faults (invalid_input): those of Grid::make; an expression that fails while it is evaluated.
[[nodiscard]] Result<Plan> make_plan(const SweepSpec& sweep, const Capabilities& runner,
                                     PointFilter* excludes, PointFilter* runner_rules);

}  // namespace shardsweep
