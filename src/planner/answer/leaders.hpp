// SPDX-License-Identifier: Apache-2.0
// Leaders of the cells of a sweep, from the rows that its further runs are decided over: what
// `best` names is measured again and profiled. Pure.
#pragma once

#include "answer/answer.hpp"
#include "search/finals.hpp"

#include <shardsweep/store.hpp>

#include <map>
#include <optional>
#include <vector>

namespace shardsweep {

/// The finals that rank a cell; none: they have no pair yet, or a layout that is not in them was
/// measured faster.
[[nodiscard]] std::optional<HeldFinals> held_finals(
    const FinalCell& cell, const std::vector<FinalsRow>& rows, const FinalsSettings& settings);

/// Answers of each cell, by the sweep's own runs. Layouts have the names of the rows; runs with a
/// profiler and those that were measured again are left out.
[[nodiscard]] std::map<CellKey, CellAnswer> answers_of(
    const std::vector<FinalsRow>& rows, const FinalsSettings& settings);

}  // namespace shardsweep
