// SPDX-License-Identifier: Apache-2.0
// The schema as it is built in, and the way of older databases to it.
#pragma once

#include "store/sqlite.hpp"

#include <cstdint>
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

/// The format (PRAGMA user_version) of schema.sql. Programs of before were never released, and
/// their databases are refused.
inline constexpr std::int64_t first_format = 30;

/// `migrations[i]` brings a database to format first_format + i; the first makes the schema in an
/// empty file. A new format is one more element, and never another text of an old one: databases
/// that have run it exist.
[[nodiscard]] std::span<const std::string> migrations();

/// All missing migrations in one transaction. A database of a newer or of an unreleased format, or
/// one that is not ours, is refused.
void migrate(Database& database, std::span<const std::string> steps = migrations());

/// Makes the tables of an empty file. An older database stays as it is: its daemon may be running.
void migrate_new(Database& database);

/// Refuses what migrate() would refuse or change: readers change nothing. `lock` is that of the
/// database's daemon.
void require_current(Database& database, const std::filesystem::path& lock);

/// Write-ahead log where the file system is known to be local, else a rollback journal; with
/// full synchronisation either way.
void set_journal(Database& database, const std::filesystem::path& file);

}  // namespace shardsweep::sqlite
