// SPDX-License-Identifier: Apache-2.0
// Decision: Over a network only the host of its writer, or `--take-over`, undoes an unfinished
// transaction: another host does not see locks, and the writer may go on.
#include "store/opening.hpp"

#include "store/schema.hpp"

#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>
#include <sqlite3.h>

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>

namespace shardsweep::sqlite {
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
      fmt::format("{}: a transaction is not finished. {} is writing, or was ended in the middle. "
                  "Try again in a minute, or run `shardsweep status`{}. `shardsweep daemon "
                  "--take-over` undoes it from here.",
          file.string(), who, where));
}

[[noreturn]] void explain_unreadable(const fs::path& file, const SqliteError& error) {
  const char* why = error.code() == SQLITE_READONLY_ROLLBACK
      ? "Its writer was killed, and repairing it needs permission to write"
      : "A file beside it can't be read";
  fail(FaultKind::unavailable,
      fmt::format("{}: {}. Ask its owner to run `shardsweep status`, or for a copy made by "
                  "`shardsweep export copy.db`.",
          file.string(), why));
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
        fmt::format("{}: only its owner may read it: it holds secrets of the site file. Ask for a "
                    "copy made by `shardsweep export copy.db`.",
            file.string()));
  Database database = !may_write(file) ? open_as_guest(file)
      : is_local_file_system(file)     ? looked_at(file, OpenMode::existing)
                                       : open_shared(file);
  database.execute("PRAGMA query_only = 1");
  return database;
}

}  // namespace shardsweep::sqlite
