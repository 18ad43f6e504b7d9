// SPDX-License-Identifier: Apache-2.0
#include "store/schema.hpp"

#include "store/rows.hpp"

#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/database_format.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace shardsweep::sqlite {
namespace {

void refuse_strangers(Database& database, std::int64_t version, std::int64_t known) {
  const bool ours = database.integer("PRAGMA application_id") == application_id;
  const bool empty = database.integer("SELECT count(*) FROM sqlite_schema") == 0;
  if (!ours && !empty) {
    fail(
        FaultKind::invalid_input, "{} is a database, but not one of shardsweep's", database.name());
  }
  if (version > known) {
    fail(FaultKind::rejected,
        "{} was written by a newer shardsweep (database format {}, this program knows "
        "{}): use that version, or another --db",
        database.name(), version, known);
  }
  if (version > 0 && version < first_format) {
    fail(FaultKind::rejected,
        "{} has database format {}, of a program that was never released; this program "
        "reads {} to {}: use the program that wrote it, or another --db",
        database.name(), version, first_format, known);
  }
}

std::int64_t format_after(std::span<const std::string> steps) {
  return first_format - 1 + static_cast<std::int64_t>(steps.size());
}

/// Columns of a model's shape, in `trials` or in a view. The table calls the hidden size otherwise.
std::string shape_list(bool of_table) {
  std::string list;
  for (const auto& field : shape_fields) {
    const bool renamed = of_table && field.name == "hidden";
    list += fmt::format(
        "{}t.{}", list.empty() ? "" : ", ", renamed ? "hidden_size AS hidden" : field.name);
  }
  return list;
}

void fill_in(std::string& text, std::string_view mark, const std::string& columns) {
  for (auto at = text.find(mark, text.find("CREATE")); at != std::string::npos;
       at = text.find(mark, at))
    text.replace(at, mark.size(), columns);
}

}  // namespace

std::string views() {
  std::string text = views_sql;
  fill_in(text, "/*axes of t*/", axis_list("t."));
  fill_in(text, "/*shape of trial t*/", shape_list(true));
  fill_in(text, "/*shape of t*/", shape_list(false));
  return text;
}

namespace {

/// A step may rename what a view names, and SQLite looks at all views then.
void drop_views(Database& database) {
  constexpr std::string_view drop = "DROP VIEW";
  const std::string text = views();
  for (std::size_t at = text.find(drop); at != std::string::npos; at = text.find(drop, at + 1))
    database.execute(text.substr(at, text.find(';', at) - at));
}

}  // namespace

void migrate(Database& database, std::span<const std::string> steps) {
  const auto known = format_after(steps);
  refuse_strangers(database, database.integer("PRAGMA user_version"), known);
  if (database.integer("PRAGMA user_version") >= known) return;
  // All steps are done or none, so that a full disk leaves no half of a database.
  Transaction transaction(database);
  // Asked again under the lock: somebody else may have done it meanwhile.
  const auto version = database.integer("PRAGMA user_version");
  if (version >= known) return;
  drop_views(database);
  const auto missing = std::min(known - version, static_cast<std::int64_t>(steps.size()));
  for (const auto& step : steps.last(static_cast<std::size_t>(missing)))
    database.execute(step);
  database.execute(views());
  database.execute(fmt::format("PRAGMA application_id = {}", application_id));
  database.execute(fmt::format("PRAGMA user_version = {}", known));
  fail_by_errno(fail_point_error("store.migrate"), database);
  transaction.commit();
  fail_point("store.migrated");
}

void migrate_new(Database& database) {
  const auto version = database.integer("PRAGMA user_version");
  if (version == 0) return migrate(database);
  refuse_strangers(database, version, database_format());
}

void require_current(Database& database, const std::filesystem::path& lock) {
  const auto known = database_format();
  const auto version = database.integer("PRAGMA user_version");
  refuse_strangers(database, version, known);
  if (version == 0) {
    fail(FaultKind::unavailable,
        "{} has no tables yet. A daemon makes them when it starts; `shardsweep run "
        "SWEEP.yaml` starts one if none runs.",
        database.name());
  }
  if (version >= known) return;
  const std::string what = fmt::format(
      "{} has database format {}, this program reads {}", database.name(), version, known);
  if (const auto daemon = lock_holder(lock)) {
    fail(FaultKind::rejected,
        "{}, and the daemon that runs (pid {}) is of an older version: `shardsweep "
        "daemon --take-over` replaces it, and running trials go on",
        what, *daemon);
  }
  fail(FaultKind::rejected,
      what + ": `shardsweep daemon` or `shardsweep tick` brings it up to date");
}

void set_journal(Database& database, const std::filesystem::path& file) {
  const std::string wanted = is_local_file_system(file) ? "wal" : "delete";
  const auto got = database.text("PRAGMA journal_mode = " + wanted);
  if (got != wanted) {
    fail(FaultKind::busy, "{}: the journal is '{}' and can't become '{}' now", database.name(), got,
        wanted);
  }
  // A measurement that was reported as durable must survive a power cut.
  database.execute("PRAGMA synchronous = FULL");
  // SQLite's own 1,000 pages are less than a piece of a large submission changes: it would copy
  // the same pages of the indexes after each. This is 32 MiB beside the database at most.
  database.execute("PRAGMA wal_autocheckpoint = 8000");
}

}  // namespace shardsweep::sqlite

namespace shardsweep {

std::int64_t database_format() {
  return sqlite::format_after(sqlite::migrations());
}

}  // namespace shardsweep
