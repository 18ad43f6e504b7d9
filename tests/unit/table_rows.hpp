// SPDX-License-Identifier: Apache-2.0
// Tables that a program prints, by the names of their columns, and trials of a report.
#pragma once

#include "show/trial_columns.hpp"

#include <shardsweep/report_facts.hpp>
#include <shardsweep/table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {

class Rows {
 public:
  explicit Rows(const Table& table) : table_(table) {}
  [[nodiscard]] std::size_t size() const { return table_.rows.size(); }
  /// NULL if there is no such column.
  [[nodiscard]] Value value(std::size_t row, std::string_view column) const {
    const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
    if (found == table_.columns.end()) return {};
    return table_.rows[row][static_cast<std::size_t>(found - table_.columns.begin())];
  }
  [[nodiscard]] std::string text(std::size_t row, std::string_view column) const {
    return plain_text(value(row, column));
  }
  [[nodiscard]] std::optional<double> number(std::size_t row, std::string_view column) const {
    const Value found = value(row, column);
    if (const auto* real = std::get_if<double>(&found)) return *real;
    if (const auto* integer = std::get_if<std::int64_t>(&found))
      return static_cast<double>(*integer);
    return std::nullopt;
  }
  [[nodiscard]] std::int64_t integer(std::size_t row, std::string_view column) const {
    const Value found = value(row, column);
    const auto* integer = std::get_if<std::int64_t>(&found);
    return integer == nullptr ? 0 : *integer;
  }

 private:
  const Table& table_;
};

/// Sets an axis of a trial of a report.
inline void set_axis(ReportedTrial& trial, std::string_view name, Value value) {
  const auto& axes = axes_of_trials();
  const auto axis =
      std::find_if(axes.begin(), axes.end(), [&](const auto* one) { return one->name == name; });
  if (axis == axes.end()) return;
  trial.axes.resize(axes.size());
  trial.axes[static_cast<std::size_t>(axis - axes.begin())] = std::move(value);
}

}  // namespace shardsweep
