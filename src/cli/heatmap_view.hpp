// SPDX-License-Identifier: Apache-2.0
// A heatmap as text.
#pragma once

#include "cli/format.hpp"
#include "domain/pivot.hpp"

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
  bool colour = false;  ///< table: 256 colours, from the lowest value to the highest
};

/// table: value and mark, the layout below, a legend of the marks that occur. csv: the matrix
/// (or the list). json: the list.
[[nodiscard]] std::string heatmap_text(const Heatmap& heatmap, const HeatmapText& how);

/// Whether to colour: a terminal, NO_COLOR unset or empty (no-color.org), TERM not `dumb`.
[[nodiscard]] bool wants_colour(bool terminal, const char* no_color, const char* term);

}  // namespace shardsweep
