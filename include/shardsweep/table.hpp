// SPDX-License-Identifier: Apache-2.0
// A result to be printed as table, csv or json: columns and rows of database values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace shardsweep {

using Value = std::variant<std::monostate, std::int64_t, double, std::string>;

[[nodiscard]] inline bool is_number(const Value& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;
  std::string note{};  ///< remark on rows that were left out or cut, for stderr; often empty
};

}  // namespace shardsweep
