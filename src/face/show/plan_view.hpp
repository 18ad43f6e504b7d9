// SPDX-License-Identifier: Apache-2.0
// A plan as text. Pure: appends to a buffer, knows no terminal.
#pragma once

#include "plan/plan.hpp"
#include "show/table_view.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Trials that a table shows where the whole is not asked for.
inline constexpr std::size_t trials_shown = 40;

struct PlanText {
  Format format = Format::table;
  bool whole = true;  ///< false: of a table the first trials_shown trials
  Flush flush{};
  Terminal terminal{};                       ///< terminal of a table
  std::optional<std::size_t> usual_width{};  ///< TableStyle::usual_width, of the trials
};

/// table: counts by verdict and constraint with an example each, the trials in order with their
/// layout, predicted memory, train step and GPU-hours; `whole` shows all of
/// them. csv and json are always whole: a line per trial; one object {sweep, cluster, points,
/// duplicates, feasible, left_out: {constraint: count}, examples: {constraint: why}, warnings,
/// lanes, gpu_hours, excluded: [{when, points}], worlds: [{nodes, gpus, trials, run_time_s,
/// gpu_hours}], trials: [...]}. Unknown predictions are empty, or null. Toggles are 0 | 1
/// and vars go by their names, as in the database.
void write_plan(fmt::memory_buffer& out, const SweepSpec& sweep, const Capabilities& runner,
    const Plan& plan, const PlanText& text);

// A plan cell by cell: each launch with what is predicted of it, and each point left out.

/// json and csv: one row for each launch and for each point left out.
[[nodiscard]] std::string plan_story_text(
    const std::vector<PlannedCell>& cells, const TableStyle& style);

}  // namespace shardsweep
