// SPDX-License-Identifier: Apache-2.0
// Statements over rows that list their columns (described.hpp): text, parameters and results
// follow the list's order.
#pragma once

#include "store/rows.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/cell_key.hpp>
#include <shardsweep/rows.hpp>

#include <fmt/format.h>

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep::sqlite {

// Keys of cells and layouts as the database has them: every statement that groups, joins or
// names by them takes its expression from here.

inline constexpr int cell_column_count = 5;
/// `of`: "t." or nothing.
[[nodiscard]] inline std::string cell_columns(std::string_view of) {
  return fmt::format("{0}model, {0}seq_len, {0}nodes, {0}gpus, {0}vars", of);
}
[[nodiscard]] inline CellKey read_cell(const Statement::Use& row, int first) {
  return {row.text(first), row.integer(first + 1), row.integer(first + 2), row.integer(first + 3),
      row.text(first + 4)};
}

/// Sweeps that were a table of others: vars of theirs are labels, which set nothing. What came out
/// of a folder of lines has its sweep file, and is as it was.
inline constexpr std::string_view imported_tables_sql =
    "SELECT id FROM sweeps WHERE backend = 'imported' AND source = resolved";

/// Key that all repeats of a layout have, in all sweeps. A lane's trials differ in micro_batch,
/// grad_accum and repeat alone.
[[nodiscard]] inline std::string layout_key_sql(std::string_view of) {
  return fmt::format("{0}lane || '/' || {0}micro_batch || '/' || {0}grad_accum", of);
}
/// Key of a layout with the settings of NCCL and of the allocator, as ranks found them: runs under
/// others are no repeats. `attempt`: expression of the attempt that is counted.
[[nodiscard]] inline std::string layout_and_settings_sql(
    std::string_view of, std::string_view attempt) {
  return fmt::format(
      "{} || '/' || ifnull((SELECT m.settings FROM measurements AS m WHERE m.attempt = {}), '')",
      layout_key_sql(of), attempt);
}

/// "prefix.a, prefix.b": all columns, those that are only read too.
template <class Row>
[[nodiscard]] std::string columns_of(std::string_view prefix = "") {
  std::string text;
  visit_fields<Row>([&](const auto& field) {
    if (field.is(Flag::unstored)) return;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", prefix, field.name);
  });
  return text;
}

/// "a = ?2, b = ?3": what is stored; parameters count over keys and stored columns.
template <class Row>
[[nodiscard]] std::string assignments_of(bool keys, std::string_view separator) {
  std::string text;
  int number = 0;
  visit_fields<Row>([&](const auto& field) {
    if (!field.is_stored()) return;
    ++number;
    if (field.is(Flag::key) != keys) return;
    text += fmt::format("{}{} = ?{}", text.empty() ? "" : separator, field.name, number);
  });
  return text;
}

template <class Row>
[[nodiscard]] std::string update_of(std::string_view table) {
  return fmt::format("UPDATE {} SET {} WHERE {}", table, assignments_of<Row>(false, ", "),
      assignments_of<Row>(true, " AND "));
}

/// `first`: a column before those of the row, which the caller binds; empty: none.
template <class Row>
[[nodiscard]] std::string insert_of(std::string_view table, std::string_view first = "") {
  std::string columns(first);
  std::string values(first.empty() ? "" : "?");
  visit_fields<Row>([&](const auto& field) {
    if (!field.is_stored()) return;
    const std::string_view comma = columns.empty() ? "" : ", ";
    columns += fmt::format("{}{}", comma, field.name);
    values += fmt::format("{}?", comma);
  });
  return fmt::format("INSERT INTO {} ({}) VALUES ({})", table, columns, values);
}

template <class Row>
[[nodiscard]] std::string upsert_of(std::string_view table) {
  std::string keys;
  visit_fields<Row>([&](const auto& field) {
    if (field.is(Flag::key)) keys += fmt::format("{}{}", keys.empty() ? "" : ", ", field.name);
  });
  return fmt::format("{} ON CONFLICT ({}) DO UPDATE SET {}", insert_of<Row>(table), keys,
      assignments_of<Row>(false, ", "));
}

template <Worded Enum>
void bind_field(Statement::Use& use, Enum value, Flag) {
  use.bind(word_of(value));
}
template <Worded Enum>
void bind_field(Statement::Use& use, const std::optional<Enum>& value, Flag flags) {
  if (!value && has(flags, Flag::as_null)) return use.bind(nullptr);
  use.bind(value ? word_of(*value) : std::string_view());
}
template <std::integral T>
void bind_field(Statement::Use& use, T value, Flag flags) {
  if (value == 0 && has(flags, Flag::as_null)) return use.bind(nullptr);
  use.bind(value);
}
inline void bind_field(Statement::Use& use, double value, Flag) {
  use.bind(value);
}
inline void bind_field(Statement::Use& use, const std::string& value, Flag) {
  use.bind(std::string_view(value));
}

/// Parameters of update_of(), insert_of() and upsert_of().
template <class Row>
void bind_row(Statement::Use& use, const Row& row) {
  visit_values(row, [&](const auto& field, const auto& value) {
    if (field.is_stored()) bind_field(use, value, field.flags);
  });
}

template <Worded Enum>
void read_field(const Statement::Use& use, int column, Enum& into) {
  into = static_cast<Enum>(word_index(word_table<Enum>, use.view(column)));
}
template <Worded Enum>
void read_field(const Statement::Use& use, int column, std::optional<Enum>& into) {
  into.reset();
  if (use.null(column) || use.view(column).empty()) return;
  read_field(use, column, into.emplace());
}
template <class T>
void read_field(const Statement::Use& use, int column, T& into) {
  use.read(column, into);
}
template <class T>
requires std::integral<T> || std::floating_point<T>
void read_field(const Statement::Use& use, int column, std::optional<T>& into) {
  into.reset();
  if (!use.null(column)) use.read(column, into.emplace());
}

/// Values of columns that follow each other from `column` on.
template <class... Values>
void read_fields(const Statement::Use& use, int column, Values&... into) {
  (read_field(use, column++, into), ...);
}

/// A row back from columns_of(), which begin at `column`.
template <class Row>
[[nodiscard]] Row read_row(const Statement::Use& use, int column = 0) {
  Row row;
  visit_values(row, [&](const auto& field, auto& value) {
    if (!field.is(Flag::unstored)) read_field(use, column++, value);
  });
  return row;
}

/// The rows of a statement over columns_of() or trial_row_columns(), by id; one that is there
/// already stays as it is.
template <class Row>
void read_rows(Database& database, const std::string& text, std::map<std::int64_t, Row>& into) {
  Statement select(database, text);
  auto use = select.use();
  while (use.next()) {
    Row row = read_row<Row>(use);
    const std::int64_t id = row.id;
    into.emplace_hint(into.end(), id, std::move(row));  // mostly in order
  }
}

}  // namespace shardsweep::sqlite
