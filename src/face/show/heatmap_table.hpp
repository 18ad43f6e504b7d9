// SPDX-License-Identifier: Apache-2.0
// A heatmap as tables for other programs.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/table.hpp>

namespace shardsweep {

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
