// SPDX-License-Identifier: Apache-2.0
// A frontier as a drawing.
#pragma once

#include "show/frontier.hpp"

#include <shardsweep/drawing.hpp>

namespace shardsweep {

/// A chart per group below each other; of nodes one chart with a line per group.
[[nodiscard]] Drawing frontier_picture(const Frontier& frontier);

}  // namespace shardsweep
