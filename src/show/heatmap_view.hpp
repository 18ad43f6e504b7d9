// SPDX-License-Identifier: Apache-2.0
// A heatmap as text.
#pragma once

#include "show/format.hpp"
#include "show/pivot.hpp"
#include "show/terminal.hpp"

#include <shardsweep/table.hpp>

#include <string>

namespace shardsweep {

/// For a spreadsheet: the first column has the rows' labels, then one column per label of the
/// other axis, named `nodes=4`. A cell is the best value, else the status as a word; empty
/// where the sweep has no such point.
[[nodiscard]] Table heatmap_matrix(const Heatmap& heatmap);

/// One row per cell: both labels, value, layout, status, trials, completed, open, infeasible.
[[nodiscard]] Table heatmap_list(const Heatmap& heatmap);

struct HeatmapText {
  Format format = Format::table;
  bool list = false;    ///< csv: one line per cell instead of the matrix
  Terminal terminal{};  ///< table: 256 colours, from the lowest value to the highest
};

/// table: value and mark, the layout below, a legend of the marks that occur; columns that do
/// not fit beside each other follow in further blocks. csv: the matrix (or the list). json: the
/// list.
[[nodiscard]] std::string heatmap_text(const Heatmap& heatmap, const HeatmapText& how);

}  // namespace shardsweep
