// SPDX-License-Identifier: Apache-2.0
#include "store/reading.hpp"

#include "filter/filter.hpp"
#include "store/schema.hpp"

#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>
#include <sqlite3.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace shardsweep::sqlite {

// Decision: Over a network only the host of its writer, or `--take-over`, undoes an unfinished
// transaction: another host does not see locks, and the writer may go on.

namespace {

namespace fs = std::filesystem;

fs::path beside(const fs::path& file, const char* ending) {
  fs::path path = file;
  path += ending;
  return path;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool may_write(const fs::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return ::access(file.c_str(), W_OK) == 0 && ::access(folder.c_str(), W_OK) == 0;
}

/// The first look at the pages: it takes the lock, and finds what a killed writer has left.
Database looked_at(const fs::path& file, OpenMode mode) {
  Database database(file, mode, read_wait_ms);
  (void)database.integer("SELECT count(*) FROM sqlite_schema");
  return database;
}

/// Opens a file for reading; none if a transaction is unfinished, which such a connection can't
/// undo.
std::optional<Database> opened_frozen(const fs::path& file) {
  try {
    return looked_at(file, OpenMode::frozen);
  } catch (const SqliteError& error) {
    if (error.code() != SQLITE_READONLY_ROLLBACK && error.code() != SQLITE_BUSY_RECOVERY) throw;
    return std::nullopt;
  }
}

/// Another host's commit takes milliseconds: its journal goes away.
std::optional<Database> opened_after_a_commit(const fs::path& file) {
  constexpr int looks = 50;
  for (int look = 0; look < looks; ++look) {
    if (auto database = opened_frozen(file)) return database;
    ::poll(nullptr, 0, read_wait_ms / looks);
  }
  return std::nullopt;
}

bool has_stood_still(const fs::path& journal) {
  constexpr auto long_enough = std::chrono::minutes(1);
  std::error_code error;
  const auto written = fs::last_write_time(journal, error);
  return !error && fs::file_time_type::clock::now() - written > long_enough;
}

/// Opens a file on a network file system, which may not show the locks of another host. A
/// transaction that stands still is undone on its writer's host alone. Elsewhere nobody knows
/// whether its writer goes on, and two that write would destroy the database. If no writer is
/// known, a transaction is undone once its journal is a minute old.
Database open_shared(const fs::path& file) {
  if (auto database = opened_after_a_commit(file)) return std::move(*database);
  const auto writer = last_holder(Home{file}.lock());
  if (writer ? !may_live(*writer) : has_stood_still(beside(file, "-journal")))
    return looked_at(file, OpenMode::existing);
  const std::string who = writer
      ? fmt::format("The daemon on {} (pid {})", writer->host, writer->pid)
      : "Another host's daemon";
  const std::string where = writer ? fmt::format(" on {}", writer->host) : " there";
  fail(FaultKind::busy,
      "{}: a transaction is not finished. {} is writing, or was ended in the middle. "
      "Try again in a minute, or run `shardsweep status`{}. `shardsweep daemon "
      "--take-over` undoes it from here.",
      file.string(), who, where);
}

[[noreturn]] void explain_unreadable(const fs::path& file, const SqliteError& error) {
  const char* why = error.code() == SQLITE_READONLY_ROLLBACK
      ? "Its writer was killed, and repairing it needs permission to write"
      : "A file beside it can't be read";
  fail(FaultKind::unavailable,
      "{}: {}. Ask its owner to run `shardsweep status`, or for a copy made by "
      "`shardsweep export copy.db`.",
      file.string(), why);
}

/// Opens a file for a user who may only read. If there is no journal and no write-ahead log beside
/// it, nobody has the file open.
Database open_as_guest(const fs::path& file) {
  try {
    return looked_at(file, OpenMode::frozen);
  } catch (const SqliteError& error) {
    const int code = error.code() & 0xff;
    if (code != SQLITE_READONLY && code != SQLITE_CANTOPEN) throw;
    if (is_there(beside(file, "-wal")) || is_there(beside(file, "-journal")))
      explain_unreadable(file, error);
    return looked_at(file, OpenMode::snapshot);
  }
}

}  // namespace

Database open_for_reading(const fs::path& file) {
  if (::access(file.c_str(), R_OK) != 0 && errno == EACCES)
    fail(FaultKind::unavailable,
        "{}: only its owner may read it: it holds secrets of the site file. Ask for a "
        "copy made by `shardsweep export copy.db`.",
        file.string());
  Database database = !may_write(file) ? open_as_guest(file)
      : is_local_file_system(file)     ? looked_at(file, OpenMode::existing)
                                       : open_shared(file);
  database.execute("PRAGMA query_only = 1");
  return database;
}

namespace {

// Functions with an effect outside the answer, of the library or of its shell.
constexpr std::array<std::string_view, 6> functions_with_effect{
    "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "writable_schema"};

// Pragmas that tell about the schema, with an argument or without.
constexpr std::array<std::string_view, 12> pragmas_with_argument{"table_info", "table_xinfo",
    "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
    "foreign_key_check", "integrity_check", "quick_check", "function_list", "collation_list"};
// Pragmas that tell without an argument, and set with one.
constexpr std::array<std::string_view, 8> pragmas_without_argument{"user_version", "application_id",
    "page_count", "page_size", "freelist_count", "schema_version", "compile_options",
    "database_list"};

std::string text(const char* words) {
  return words != nullptr ? words : "";
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
      [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool harmless_pragma(const char* name, const char* argument) {
  if (contains(pragmas_with_argument, text(name))) return true;
  return argument == nullptr && contains(pragmas_without_argument, text(name));
}

std::string describe(int action, const std::string& first) {
  switch (action) {
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      if (first == "sqlite_master" || first == "sqlite_temp_master") return "changing the schema";
      return fmt::format("writing to '{}'", first);
    case SQLITE_ATTACH:
      return "ATTACH";
    case SQLITE_DETACH:
      return "DETACH";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
      return "a transaction";
    case SQLITE_PRAGMA:
      return fmt::format("PRAGMA {}", first);
    case SQLITE_FUNCTION:
      return "this function";
    case SQLITE_ANALYZE:
      return "ANALYZE";
    case SQLITE_REINDEX:
      return "REINDEX";
    case SQLITE_ALTER_TABLE:
      return "ALTER TABLE";
    default:
      return "changing the schema";
  }
}

}  // namespace

Authorizer::Authorizer(Database& database, Allowed allowed)
    : database_(database), allowed_(allowed) {
  sqlite3_set_authorizer(database_.handle(), ask, this);
}

Authorizer::~Authorizer() {
  sqlite3_set_authorizer(database_.handle(), nullptr, nullptr);
}

std::string Authorizer::refusal(int action, const char* first, const char* second) {
  switch (action) {
    case SQLITE_READ:
      return {};
    case SQLITE_SELECT:
      ++selects_;
      return allowed_ == Allowed::query || selects_ == 1 ? "" : "a sub-query";
    case SQLITE_RECURSIVE:
      return allowed_ == Allowed::query ? "" : "a sub-query";
    case SQLITE_FUNCTION:
      if (allowed_ == Allowed::expression ? filter::knows_function(filter::Over::rows, text(second))
                                          : !contains(functions_with_effect, text(second)))
        return {};
      return fmt::format("the function {}()", text(second));
    case SQLITE_UPDATE:
      // SQLite asks this when it makes a table-valued function known (json_each,
      // pragma_table_info). A real update of that table needs writable_schema, which is refused.
      if (text(first) == "sqlite_master") return {};
      break;
    case SQLITE_PRAGMA:
      if (allowed_ == Allowed::query && harmless_pragma(first, second)) return {};
      break;
    default:
      break;
  }
  return describe(action, text(first));
}

int Authorizer::ask(void* self, int action, const char* first, const char* second,
    const char* /*database*/, const char* /*trigger*/) {
  auto& authorizer = *static_cast<Authorizer*>(self);
  const auto why = authorizer.refusal(action, first, second);
  if (why.empty()) return SQLITE_OK;
  if (authorizer.refused_.empty()) authorizer.refused_ = why;
  return SQLITE_DENY;
}

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
          "the answer is too large (more than {} rows or {} MiB): select less, or use LIMIT",
          most_rows, most_bytes >> 20);
    }
  }
  return table;
}

}  // namespace shardsweep::sqlite
