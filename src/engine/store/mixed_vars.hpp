// SPDX-License-Identifier: Apache-2.0
// Variables that have several values in the cells of a heatmap.
#pragma once

#include "store/reader.hpp"

#include <shardsweep/results.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep::sqlite {

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
