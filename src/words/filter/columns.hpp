// SPDX-License-Identifier: Apache-2.0
// The row that expressions see: each column as an integer key of a point, and what SQLite gets
// for it.
#pragma once

#include <shardsweep/filter.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::filter {

struct Column {
  std::string name;
  std::function<std::int64_t(const Point&)> key;
  /// Values by key; empty: the key is the value.
  std::vector<Value> values;
  /// Type of the database's column, so that tp = '4' means the same in both; empty for vars.
  std::string_view cast;
};

/// where_columns(), then the sweep's vars. A var's value that reads as a number is one.
[[nodiscard]] std::vector<Column> columns_of(const SweepSpec& sweep);

/// Compiles a filter like compile_filter, over any row whose keys a Point can carry.
[[nodiscard]] Result<std::unique_ptr<PointFilter>> compile(
    const std::vector<Column>& known, const std::vector<std::string>& expressions);

}  // namespace shardsweep::filter
