// SPDX-License-Identifier: Apache-2.0
// The schema as it is built in, and the way of older databases to it.
#pragma once

#include "store/sqlite.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace shardsweep::sqlite {

/// "shsw": says that a database is ours (PRAGMA application_id).
inline constexpr std::int64_t application_id = 0x73687377;

/// schema.sql (generated at configure time).
extern const char* const schema_sql;
/// views.sql (likewise), with a mark in place of the axes' columns; views() has them.
extern const char* const views_sql;
[[nodiscard]] std::string views();

/// `migrations[i]` brings version i to version i + 1 (PRAGMA user_version); the first makes the
/// schema in an empty file. A new version is one more element, and never another text of an old
/// one: databases that have run it exist.
[[nodiscard]] std::span<const std::string> migrations();

/// Each missing migration in a transaction of its own. A database of a newer version, or one
/// that is not ours, is refused.
void migrate(Database& database, std::span<const std::string> steps = migrations());

/// The same for an empty file. An older database stays as it is: its daemon may be running.
void migrate_new(Database& database);

/// Refuses what migrate() would refuse or change: readers change nothing. `lock` is that of the
/// database's daemon.
void require_current(Database& database, const std::filesystem::path& lock);

/// Write-ahead log where the file system is known to be local, else a rollback journal; with
/// full synchronisation either way.
void set_journal(Database& database, const std::filesystem::path& file);

}  // namespace shardsweep::sqlite
