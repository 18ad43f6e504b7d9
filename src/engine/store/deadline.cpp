// SPDX-License-Identifier: Apache-2.0
#include "store/deadline.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

namespace shardsweep::sqlite {
namespace {

// Some tens of microseconds, but for long texts: the rows between two looks are few.
constexpr int instructions_between_looks = 1000;

std::size_t bytes_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return sizeof(Value) + (text != nullptr ? text->size() : 0);
}

}  // namespace

Deadline::Deadline(Database& database, std::chrono::seconds limit)
    : database_(database), end_(clock_.steady() + limit) {
  sqlite3_progress_handler(database_.handle(), instructions_between_looks, ask, this);
}

Deadline::~Deadline() {
  sqlite3_progress_handler(database_.handle(), 0, nullptr, nullptr);
}

int Deadline::ask(void* self) {
  const auto& deadline = *static_cast<const Deadline*>(self);
  return deadline.clock_.steady() > deadline.end_ ? 1 : 0;
}

Table fetch(const Statement& statement, Statement::Use& use) {
  Table table;
  const int columns = statement.columns();
  for (int column = 0; column < columns; ++column)
    table.columns.push_back(statement.column_name(column));
  std::size_t bytes = 0;
  while (use.next()) {
    auto& row = table.rows.emplace_back();
    row.reserve(static_cast<std::size_t>(columns));
    for (int column = 0; column < columns; ++column)
      bytes += bytes_of(row.emplace_back(use.value(column)));
    if (table.rows.size() > most_rows || bytes > most_bytes) {
      fail(FaultKind::invalid_input,
          fmt::format(
              "the answer is too large (more than {} rows or {} MiB): select less, or use LIMIT",
              most_rows, most_bytes >> 20));
    }
  }
  return table;
}

}  // namespace shardsweep::sqlite
