// SPDX-License-Identifier: Apache-2.0
// Points of a plan that a command line names: 7, or tp=2,micro_batch=4.
#pragma once

#include "cli/session.hpp"

#include <string>
#include <vector>

namespace shardsweep {

/// Of the plan's trials, in its order: the one with this number (from 1), or all whose axes and
/// vars have these values; empty text: all. None is a fault.
[[nodiscard]] Result<std::vector<const PlannedTrial*>> points_meant(const Planned& planned,
                                                                    const std::string& text);

}  // namespace shardsweep
