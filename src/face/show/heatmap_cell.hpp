// SPDX-License-Identifier: Apache-2.0
// What a heatmap's cell says, in words: the same in the terminal and in a picture.
#pragma once

#include "show/share_steps.hpp"
#include "show/pivot.hpp"

#include <string>
#include <string_view>

namespace shardsweep {

[[nodiscard]] bool is_measured(const HeatmapCell& cell);

/// Scale of the measured values alone.
[[nodiscard]] ColourScale colour_scale(const Heatmap& heatmap);

/// "tokens/s/GPU of the fastest layout of each cell", the facet before it.
[[nodiscard]] std::string heatmap_title(const Heatmap& heatmap);

/// A value of this heatmap, with its unit.
[[nodiscard]] std::string value_text(const Heatmap& heatmap, double value);

/// The measured layout, else the predicted one where its number stands too; often empty.
[[nodiscard]] std::string layout_of(const Heatmap& heatmap, const HeatmapCell& cell);

/// `faster by 3.0 %`, `tie, +0.4 %`, `1 run, +17.2 %`, `2 runs` of a layout without a rival;
/// empty if nothing was ranked.
[[nodiscard]] std::string certainty_text(const HeatmapCell& cell);
/// A runner with its version: `shardbench 0.4.0`, and of `megatron unknown`
/// `megatron (version not told)`.
[[nodiscard]] std::string told_runner(std::string name);
/// `runner: megatron (version not told)`
[[nodiscard]] std::string runners_text(const Heatmap& heatmap);

/// Sentence that explains certainty_text() with the cell's own numbers; empty if that is empty.
[[nodiscard]] std::string certainty_meaning(const HeatmapCell& cell);

/// The cell whose certainty has most numbers, for a legend; nullptr where nothing was ranked.
[[nodiscard]] const HeatmapCell* most_certain(const Heatmap& heatmap);

/// Layout that the imported table's own MFU ranks first, and why it is not the best one here; empty
/// if it is.
[[nodiscard]] std::string published_text(const HeatmapCell& cell);

/// The short name of the constraint that left every layout out: `memory`; else empty.
[[nodiscard]] std::string rule_of(const HeatmapCell& cell);

/// Meaning of a status that is no value: a sentence for a legend.
[[nodiscard]] std::string_view cell_meaning(std::string_view status);

/// One line of words with all that is known of a cell, for a tooltip or a screen reader.
[[nodiscard]] std::string cell_sentence(
    const Heatmap& heatmap, std::size_t row, std::size_t column);

}  // namespace shardsweep
