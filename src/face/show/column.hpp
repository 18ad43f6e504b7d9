// SPDX-License-Identifier: Apache-2.0
// A view is a list of columns over rows of one struct: one writer makes a table, Markdown, CSV
// and JSON of it, so no view has a second list for programs.
#pragma once

#include "show/table_view.hpp"

#include <shardsweep/described.hpp>
#include <shardsweep/point.hpp>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Readers of a column.
enum class For : std::uint8_t {
  all,
  people,    ///< table and markdown
  machines,  ///< csv and json
};

template <class Row>
struct Column {
  std::string name;                          ///< name in csv and json; also tells the unit
  std::function<Value(const Row&)> value{};  ///< value of a row; none: words for people alone
  For whom = For::all;
  std::string title{};                            ///< heading for people; empty: that of the name
  std::function<std::string(const Row&)> text{};  ///< text for people; none: value and unit
};

template <class Row>
using View = std::vector<Column<Row>>;

/// The value, or NULL for 0: numbers that were predicted or measured are positive.
[[nodiscard]] inline Value known(double value) {
  return value > 0 ? Value(value) : Value();
}

// A field's value; an optional that is empty is NULL.

inline Value value_of(const std::string& field) {
  return field;
}
template <class T>
requires std::integral<T> || std::floating_point<T> Value value_of(T field) {
  if constexpr (std::integral<T>) return static_cast<std::int64_t>(field);
  return static_cast<double>(field);
}
template <class T>
Value value_of(const std::optional<T>& field) {
  return field ? value_of(*field) : Value();
}

/// Columns of these fields of `described<Row>`, in their order.
template <class Row>
[[nodiscard]] View<Row> field_columns(std::initializer_list<std::string_view> names) {
  View<Row> columns;
  for (const auto name : names) {
    visit_fields<Row>([&](const auto& field) {
      if (field.name != name) return;
      columns.push_back({std::string(name),
          [member = field.member](const Row& row) { return value_of(row.*member); }});
    });
  }
  return columns;
}

/// Value of an axis: the word of an axis of words, else the number. A switch is 0 or 1, which
/// people read by the axis' name.
[[nodiscard]] inline Value axis_value(const AxisInfo& axis, const Point& point) {
  if (axis.kind == AxisKind::word) return axis_text(axis, axis.get(point));
  return axis.get(point);
}

/// Numbers stand to the right; all values of a column are of one kind.
template <class Row>
[[nodiscard]] Align align_of(const Column<Row>& column, std::span<const Row> rows) {
  if (!column.value) return Align::left;
  for (const Row& row : rows) {
    const Value value = column.value(row);
    if (!std::holds_alternative<std::monostate>(value))
      return is_number(value) ? Align::right : Align::left;
  }
  return Align::left;
}

template <class Row>
[[nodiscard]] std::vector<TextColumn> text_columns(
    const View<Row>& columns, std::span<const Row> rows) {
  std::vector<TextColumn> shown;
  for (const auto& column : columns) {
    if (column.whom == For::machines) continue;
    shown.push_back({column.name, column.title.empty() ? title_of(column.name) : column.title,
        align_of(column, rows), [&column, rows](std::size_t row) {
          return column.text ? printable(column.text(rows[row]))
                             : humanised(column.name, column.value(rows[row]));
        }});
  }
  return shown;
}

/// Rows as csv or json, each as it comes.
template <class Row>
class ViewRecords {
 public:
  ViewRecords(
      fmt::memory_buffer& out, const View<Row>& columns, Format format, const Flush& flush = {})
      : columns_(of_machines(columns)), records_(out, format, names(), flush) {}

  void row(const Row& row) {
    values_.clear();
    for (const auto& column : columns_)
      values_.push_back(column.value(row));
    records_.row(values_);
  }
  void end() { records_.end(); }

 private:
  static View<Row> of_machines(View<Row> columns) {
    std::erase_if(columns, [](const auto& column) { return column.whom == For::people; });
    return columns;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& column : columns_)
      names.push_back(column.name);
    return names;
  }

  View<Row> columns_;
  RecordWriter records_;
  std::vector<Value> values_;
};

/// The array of JSON ends without a line's end.
template <class Row>
void write_view(fmt::memory_buffer& out, const View<Row>& columns, std::span<const Row> rows,
    const TableStyle& style, const Flush& flush = {}) {
  if (is_for_people(style.format))
    return write_columns(out, text_columns(columns, rows), rows.size(), style, flush);
  ViewRecords<Row> records(out, columns, style.format, flush);
  for (const Row& row : rows)
    records.row(row);
  records.end();
}

/// Table of what csv and json hold.
template <class Row>
[[nodiscard]] Table view_table(const View<Row>& columns, const std::vector<Row>& rows) {
  Table table;
  for (const auto& column : columns)
    if (column.whom != For::people) table.columns.push_back(column.name);
  for (const Row& row : rows) {
    auto& values = table.rows.emplace_back();
    for (const auto& column : columns)
      if (column.whom != For::people) values.push_back(column.value(row));
  }
  return table;
}

template <class Row>
[[nodiscard]] std::string view_text(
    const View<Row>& columns, const std::vector<Row>& rows, const TableStyle& style) {
  fmt::memory_buffer out;
  write_view(out, columns, std::span<const Row>(rows), style);
  if (style.format == Format::json) out.push_back('\n');
  return fmt::to_string(out);
}

}  // namespace shardsweep
