// SPDX-License-Identifier: Apache-2.0
// What numbers of one cell of a heatmap must not differ in, beside its rows and columns.
#pragma once

#include "store/reader.hpp"
#include "store/shapes.hpp"

#include <shardsweep/results.hpp>

#include <cstdint>
#include <string>
#include <vector>

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

// Variables that have several values in the cells of a heatmap.

struct MixedVar {
  std::string name;
  std::int64_t values = 0;
  Value one{};
};

/// Vars of a source with several values that are neither the heatmap's rows nor its columns.
[[nodiscard]] std::vector<MixedVar> mixed_vars(
    Database& database, const Source& source, const HeatmapRequest& request);

/// Empty where each variable has one value.
[[nodiscard]] std::string mixed_vars_text(const std::vector<MixedVar>& mixed);

/// Layout, and the values of the variables that a cell mixes: an expression over all_results.
[[nodiscard]] std::string label_expression(const std::vector<MixedVar>& mixed);

}  // namespace shardsweep::sqlite
