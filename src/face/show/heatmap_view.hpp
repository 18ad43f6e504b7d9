// SPDX-License-Identifier: Apache-2.0
// A heatmap as text.
#pragma once

#include "show/format.hpp"
#include "show/pivot.hpp"
#include "show/styled_text.hpp"

#include <shardsweep/table.hpp>

#include <string>
#include <vector>

namespace shardsweep {

struct HeatmapText {
  Format format = Format::table;
  bool list = false;    ///< csv: one line per cell instead of the matrix
  Terminal terminal{};  ///< table: colours from the lowest value to the highest
};

/// table: value and mark, the layout below it, how far it is ahead of the runner-up, runs and
/// their spread; a legend of what occurs; columns that do not fit beside each other follow in
/// further blocks. csv: the matrix (or the list). json, markdown: the list. Several heatmaps
/// are facets: one below the other, or one table with a column that tells them apart.
[[nodiscard]] std::string heatmap_text(
    const std::vector<Heatmap>& heatmaps, const HeatmapText& how);
[[nodiscard]] std::string heatmap_text(const Heatmap& heatmap, const HeatmapText& how);

// A heatmap as tables for other programs.

/// Heatmap for a spreadsheet: the first column has the rows' labels, then one column per label of
/// the other axis, named `nodes=4`. A cell is the value, else the status as a word; it is empty if
/// the sweep has no such point. A facet's column stands before all.
[[nodiscard]] Table heatmap_matrix(const Heatmap& heatmap);

/// One row per cell: both labels, value, layout, status, how many trials; the gap to the
/// runner-up, runs and their spread; what is predicted where nothing was measured; why there is
/// no value.
[[nodiscard]] Table heatmap_list(const Heatmap& heatmap);

/// The rows of `more` below those of `table`, by the names of their columns.
void append_table(Table& table, Table more);

}  // namespace shardsweep
