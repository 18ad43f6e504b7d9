// SPDX-License-Identifier: Apache-2.0
// Rows of a table as structs: a field of `described<Row>` is the column of its name.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/table.hpp>
#include <shardsweep/words.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace shardsweep {

// ---- a field's value; NULL, and what is none of its type, leave it as it is -----------------

inline void fill_field(std::string& field, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) field = *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) field = std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) {
    std::array<char, 32> digits{};
    field.assign(digits.data(), std::to_chars(digits.data(), digits.end(), *real).ptr);
  }
}
template <class T>
requires std::integral<T> || std::floating_point<T>
void fill_field(T& field, const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) field = static_cast<T>(*integer);
  if (const auto* real = std::get_if<double>(&value)) field = static_cast<T>(*real);
}
template <Worded Enum>
void fill_field(Enum& field, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    field = from_word<Enum>(*text).value_or(field);
}
template <class T>
void fill_field(std::optional<T>& field, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return;
  fill_field(field.emplace(), value);
}

// ---- rows -----------------------------------------------------------------------------------

/// Names of the columns that a `Row` is made of.
template <class Row>
[[nodiscard]] std::vector<std::string> columns_named() {
  std::vector<std::string> names;
  visit_fields<Row>([&](const auto& field) { names.emplace_back(field.name); });
  return names;
}

/// All rows. A field without a column breaks an invariant: statement and struct are both ours.
template <class Row>
[[nodiscard]] std::vector<Row> typed_rows(const Table& table) {
  std::vector<std::size_t> places;
  visit_fields<Row>([&](const auto& field) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), field.name);
    INVARIANT(found != table.columns.end(), "each field has a column of its name", field.name);
    places.push_back(static_cast<std::size_t>(found - table.columns.begin()));
  });
  std::vector<Row> rows(table.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto place = places.begin();
    visit_values(rows[i],
        [&](const auto& /*field*/, auto& value) { fill_field(value, table.rows[i][*place++]); });
  }
  return rows;
}

/// The texts of the first column.
[[nodiscard]] inline std::vector<std::string> first_texts(const Table& table) {
  std::vector<std::string> texts;
  for (const auto& row : table.rows)
    fill_field(texts.emplace_back(), row.front());
  return texts;
}

}  // namespace shardsweep
