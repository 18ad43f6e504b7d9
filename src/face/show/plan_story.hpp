// SPDX-License-Identifier: Apache-2.0
// A plan cell by cell: each launch with what is predicted of it, and each point left out.
#pragma once

#include "plan/plan_story.hpp"
#include "show/table_view.hpp"

#include <string>
#include <vector>

namespace shardsweep {

/// json and csv: one row for each launch and for each point left out.
[[nodiscard]] std::string plan_story_text(
    const std::vector<PlannedCell>& cells, const TableStyle& style);

}  // namespace shardsweep
