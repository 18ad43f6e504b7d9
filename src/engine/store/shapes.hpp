// SPDX-License-Identifier: Apache-2.0
// In what trials differ that no heatmap may mix.
#pragma once

#include "store/reader.hpp"

#include <shardsweep/axis_table.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsweep::sqlite {

/// Shapes of trials, which decide over columns and must not be mixed. A row has a model, sequence
/// length, nodes and gpus, with the number of trials and of the completed ones.
struct Shapes {
  static constexpr std::array<std::string_view, 4> names{"model", "seq_len", "nodes", "gpus"};
  static_assert(names_all(names, AxisUse::cell));
  std::vector<std::vector<Value>> rows;

  [[nodiscard]] static std::size_t place_of(std::string_view name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
  [[nodiscard]] static std::int64_t trials(const std::vector<Value>& row) {
    return std::get<std::int64_t>(row[names.size()]);
  }
  [[nodiscard]] static std::int64_t completed(const std::vector<Value>& row) {
    return std::get<std::int64_t>(row[names.size() + 1]);
  }
};

[[nodiscard]] Shapes shapes_of(Database& database, const Source& source);

/// Shapes of all trials, hidden ones too, without counts: each takes some looks at the index. None
/// if there are many.
[[nodiscard]] std::optional<Shapes> few_shapes(Database& database);

}  // namespace shardsweep::sqlite
