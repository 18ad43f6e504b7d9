// SPDX-License-Identifier: Apache-2.0
#include "filter/columns.hpp"

#include <shardsweep/filter.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace shardsweep {
namespace {

// A number where its text is what that number prints as, as the database keeps it.
Value var_value(const std::string& text) {
  const auto* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(text.data(), end, integer);
      read.ec == std::errc() && read.ptr == end && std::to_string(integer) == text)
    return integer;
  double real = 0;
  if (const auto read = std::from_chars(text.data(), end, real);
      read.ec == std::errc() && read.ptr == end &&
      (fmt::format("{}", real) == text || fmt::format("{}.0", real) == text))
    return real;
  return text;
}

}  // namespace

const std::vector<std::string_view>& where_columns() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const auto& axis : axes())
      all.push_back(axis.name);
    all.push_back("global_batch");
    all.push_back("repeat");
    for (const auto& shape : shape_fields)
      all.push_back(shape.name);
    return all;
  }();
  return names;
}

namespace filter {
namespace {

Column axis_column(const AxisInfo& axis, const SweepSpec& sweep) {
  Column column{std::string(axis.name), axis.get, {}, "INTEGER"};
  if (axis.kind == AxisKind::model) {
    for (const auto& model : sweep.models)
      column.values.emplace_back(model.name);
  } else if (axis.kind == AxisKind::word) {
    for (const auto word : axis.words)
      column.values.emplace_back(std::string(word));
  }
  if (!column.values.empty()) column.cast = "TEXT";
  return column;
}

}  // namespace

std::vector<Column> columns_of(const SweepSpec& sweep) {
  std::vector<Column> columns;
  for (const auto& axis : axes())
    columns.push_back(axis_column(axis, sweep));
  columns.push_back({"global_batch",
                     [](const Point& point) { return point.layout.global_batch(); },
                     {},
                     "INTEGER"});
  columns.push_back(
      {"repeat", [](const Point& point) { return std::int64_t{point.repeat}; }, {}, "INTEGER"});
  for (const auto& shape : shape_fields) {
    Column column{std::string(shape.name),
                  [](const Point& point) { return std::int64_t{point.model}; },
                  {},
                  "INTEGER"};
    for (const auto& model : sweep.models)
      column.values.emplace_back(model.*shape.member);
    columns.push_back(std::move(column));
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    Column column{sweep.vars[i].name,
                  [i](const Point& point) { return std::int64_t{point.vars.at(i)}; },
                  {},
                  {}};
    for (const auto& value : sweep.vars[i].values)
      column.values.push_back(var_value(value));
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace filter
}  // namespace shardsweep
