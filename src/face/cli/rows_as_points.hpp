// SPDX-License-Identifier: Apache-2.0
// Rows of results as points, and points as layouts in a trainer's words.
#pragma once

#include "trainer/configuration.hpp"

#include <shardsweep/point.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// One row's values by their columns.
class ResultRow {
 public:
  ResultRow(const Table& table, std::size_t row) : table_(table), row_(table.rows.at(row)) {}

  /// 0, empty: it has no such value.
  [[nodiscard]] std::int64_t number(std::string_view column) const;
  [[nodiscard]] std::string text(std::string_view column) const;
  [[nodiscard]] double real(std::string_view column) const;

 private:
  [[nodiscard]] const Value& at(std::string_view column) const;

  const Table& table_;
  const std::vector<Value>& row_;
};

[[nodiscard]] TrainerLayout layout_of_point(const Point& point);

/// Sweep and trial, and all axes.
[[nodiscard]] std::vector<std::string> point_columns();

/// A value of a column as the axis counts it; none: no value of this axis.
[[nodiscard]] std::optional<std::int64_t> axis_value(const AxisInfo& axis,
                                                     const SweepSpec& sweep,
                                                     const ResultRow& row);

}  // namespace shardsweep
