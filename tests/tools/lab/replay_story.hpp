// SPDX-License-Identifier: Apache-2.0
// What a replay did in each cell, launch by launch, and what it left out.
#pragma once

#include "show/table_view.hpp"
#include "tools/lab/replay.hpp"

#include <string>

namespace shardsweep {

/// Of each cell: its launches in order (predicted, chance to fit, measured, why next), then
/// each row that was never launched, with its rule and what the table says of it. json and csv:
/// one row each.
[[nodiscard]] std::string replay_story_text(const ReplayReport& report, const TableStyle& style);

}  // namespace shardsweep
