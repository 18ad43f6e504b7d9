// SPDX-License-Identifier: Apache-2.0
// The order of a plan whose cells are searched best first: what each search would start with,
// and go on with while nothing that it measures surprises it.
#pragma once

#include "plan/lane_order.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/search.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <functional>
#include <vector>

namespace shardsweep {

/// Numbers of `entries` in that order: cell by cell, as SweepSearch goes through them. `read`
/// gives the point of an entry.
[[nodiscard]] std::vector<std::size_t> best_first_order(
    const SweepSpec& sweep, const Predictor& predictor, const std::vector<LaneEntry>& entries,
    const std::function<const Point&(const LaneEntry&)>& read);

}  // namespace shardsweep
