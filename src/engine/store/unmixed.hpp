// SPDX-License-Identifier: Apache-2.0
// What numbers of one cell of a heatmap must not differ in, beside its rows and columns.
#pragma once

#include "store/reader.hpp"
#include "store/shapes.hpp"

#include <string>

namespace shardsweep::sqlite {

/// `gpus` or `nodes`. Of sweeps over `gpus` every trial has 0 nodes; an imported table may have
/// worlds of several sizes on one node.
[[nodiscard]] std::string world_column(const Shapes& shapes);

/// Cells would hold several models, lengths or worlds.
[[nodiscard]] bool is_mixed(const HeatmapRequest& request, const Shapes& shapes);

/// Speeds of several models or worlds are not compared in one cell: the combination with the
/// most measurements is shown. The sentence that says so; empty if there is one alone.
[[nodiscard]] std::string keep_unmixed(
    const HeatmapRequest& request, const Shapes& shapes, Source& source);

}  // namespace shardsweep::sqlite
