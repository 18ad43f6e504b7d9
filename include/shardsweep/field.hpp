// SPDX-License-Identifier: Apache-2.0
// Rows of the database as structs: each lists its columns once, in `fields<Row>`. Statements,
// comparison and tests visit that list; nothing else numbers or names a column.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

namespace shardsweep {

enum class Kept : std::uint8_t {
  key,     ///< finds the row
  stored,  ///< written with each change of the row
  read,    ///< a submission writes it, or it follows from other rows: the daemon reads it alone
};

/// How "none" (an id of 0, an empty optional) stands in the column.
enum class None : std::uint8_t {
  as_value,  ///< 0, or the empty word
  as_null,
};

template <class Row, class T>
struct Field {
  std::string_view column;
  T Row::*member;
  Kept kept = Kept::stored;
  None none = None::as_value;
};

template <class Row, class T>
Field(std::string_view, T Row::*, Kept = Kept::stored, None = None::as_value) -> Field<Row, T>;

/// A std::tuple of Field. Each row specialises it.
template <class Row>
inline constexpr std::tuple<> fields{};

template <class Row, class Visit>
constexpr void visit_fields(Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, fields<Row>);
}

/// Two states of one row.
template <class Row>
[[nodiscard]] bool is_same_row(const Row& a, const Row& b) {
  return std::apply(
      [&](const auto&... field) {
        return ((field.kept != Kept::key || a.*field.member == b.*field.member) && ...);
      },
      fields<Row>);
}

/// Nothing that is written differs.
template <class Row>
[[nodiscard]] bool is_stored_alike(const Row& a, const Row& b) {
  return std::apply(
      [&](const auto&... field) {
        return ((field.kept == Kept::read || a.*field.member == b.*field.member) && ...);
      },
      fields<Row>);
}

}  // namespace shardsweep
