// SPDX-License-Identifier: Apache-2.0
// A frontier as a drawing and as a page.
#pragma once

#include "show/frontier.hpp"

#include <shardsweep/drawing.hpp>

#include <span>
#include <string>

namespace shardsweep {

/// A chart per group below each other; of nodes one chart with a line per group.
[[nodiscard]] Drawing frontier_picture(const Frontier& frontier);

/// The same charts with their tables in the report's form. `made` says when, and by which version.
[[nodiscard]] std::string frontier_page(
    std::span<const Frontier> frontiers, const std::string& made);

}  // namespace shardsweep
