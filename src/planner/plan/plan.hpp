// SPDX-License-Identifier: Apache-2.0
// From a sweep to its plan: expand, judge, predict, order.
#pragma once

#include "predict/predictor.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/filter.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// `excludes` is compiled from sweep.excludes and `runner_rules` from runner.rules, in their
/// order; null if there are none. The order is the same for the same input: lanes by nodes,
/// then GPUs, then predicted tokens/s per GPU, best first; within a lane by micro_batch, then
/// grad_accum, then repeat, ascending.
/// Faults (invalid_input): those of Grid::make; an expression that fails while it is evaluated.
[[nodiscard]] Result<Plan> make_plan(const SweepSpec& sweep, const Capabilities& runner,
    PointFilter* excludes, PointFilter* runner_rules);

/// Plans a sweep without excludes and returns each trial's prediction with its bounds: `guesses`,
/// in the plan's order. It leaves hours and the trials' predictions out.
[[nodiscard]] Result<Plan> make_plan(const SweepSpec& sweep, std::vector<Guess>& guesses);

/// Why most points of a plan are left out, with the numbers of the first of them: "gpus 8 is
/// more than …". Of points whose numbers divide, if there are any: those are nearest to
/// running. Empty if none is left out.
[[nodiscard]] std::string why_nothing_runs(const Plan& plan);

}  // namespace shardsweep
