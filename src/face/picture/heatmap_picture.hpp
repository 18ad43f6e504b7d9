// SPDX-License-Identifier: Apache-2.0
// A heatmap as a drawing.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/drawing.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace shardsweep {

/// `cell-1-2`: of the second row and the third column.
[[nodiscard]] std::string cell_key(std::size_t row, std::size_t column);

/// `4 nodes`; of another axis `tp 4`.
[[nodiscard]] std::string column_text(const Heatmap& heatmap, const std::string& label);

/// `tokens/s/GPU of the fastest layout of each cell`, behind the facet's value.
[[nodiscard]] std::string picture_title(const Heatmap& heatmap);

/// Cells in the colours of their values, with value, layout and certainty in words; cells
/// without a value say why; what is predicted is hatched and has no colour. Below it the scale
/// and the legend of what occurs. Each cell is a group with its key and its sentence.
[[nodiscard]] Drawing heatmap_picture(const Heatmap& heatmap);

/// A line below it says where its numbers come from: sweep, date, hardware.
[[nodiscard]] Drawing with_source(Drawing drawing, const std::string& source);

/// Drawings below each other, as one. The keys of the second and later ones are gone.
[[nodiscard]] Drawing stacked(std::vector<Drawing> drawings);

}  // namespace shardsweep
