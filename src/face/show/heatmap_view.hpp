// SPDX-License-Identifier: Apache-2.0
// A heatmap as text.
#pragma once

#include "show/format.hpp"
#include "show/pivot.hpp"
#include "show/styled_text.hpp"

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

}  // namespace shardsweep
