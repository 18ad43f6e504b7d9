// SPDX-License-Identifier: Apache-2.0
// Rows of a table by the names of its columns.
#pragma once

#include <shardsweep/table.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

class Rows {
 public:
  explicit Rows(const Table& table);
  [[nodiscard]] std::size_t size() const { return table_.rows.size(); }
  /// NULL where there is no such column.
  [[nodiscard]] const Value& value(std::size_t row, std::string_view column) const;
  [[nodiscard]] std::string text(std::size_t row, std::string_view column) const;
  [[nodiscard]] std::optional<double> number(std::size_t row, std::string_view column) const;
  [[nodiscard]] std::int64_t integer(std::size_t row, std::string_view column) const;
  /// `key=value;key=value`, numbers alone.
  [[nodiscard]] std::vector<std::pair<std::string, double>> numbers(
      std::size_t row, std::string_view column) const;

 private:
  const Table& table_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// The parts of `key=value;key=value`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> key_values(std::string_view text);

}  // namespace shardsweep
