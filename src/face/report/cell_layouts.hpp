// SPDX-License-Identifier: Apache-2.0
// The trials of a heatmap's cell, layout by layout.
#pragma once

#include "answer/verdict.hpp"
#include "show/pivot.hpp"
#include "show/rows.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

/// A layout of one cell with its runs: rows of the trials' table.
struct MeasuredLayout {
  std::string name;  ///< layout, with the vars where there are any
  Ranked ranked{};   ///< by tokens/s/GPU
  std::vector<std::size_t> runs;
  std::size_t median_run = 0;
  SpeedVerdict verdict{};  ///< of the cell's winner to it
};

struct CellLayouts {
  std::size_t row = 0;  ///< in the heatmap
  std::size_t column = 0;
  std::vector<MeasuredLayout> layouts;  ///< as the cell's answer ranks them
  std::vector<std::size_t> trials;      ///< all of them, also those without a measurement
};

struct LayoutsOfCells {
  std::vector<CellLayouts> cells;  ///< those of the heatmap that have trials
};

/// The answers of the heatmap's cells with the rows of their runs: nothing is ranked here. The
/// heatmap has to have asked for all layouts. Of the runners that the heatmap shows, and of the
/// sequence length with most measurements.
[[nodiscard]] LayoutsOfCells layouts_of_cells(const Heatmap& heatmap, const Rows& trials);

}  // namespace shardsweep
