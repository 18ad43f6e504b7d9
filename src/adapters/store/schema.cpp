// SPDX-License-Identifier: Apache-2.0
#include "adapters/store/schema.hpp"

#include <fmt/format.h>

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <vector>

namespace shardsweep::sqlite {
namespace {

// A write-ahead log needs memory shared between all who have the database open, which network
// file systems do not give and do not refuse either: hence a list of those that do. overlayfs
// is on it because the kernel takes no network file system as its writable layer, and it is
// what containers and CI stand on.
constexpr std::array<unsigned long, 6> local_file_systems{
    0xEF53,      // ext2, ext3, ext4
    0x58465342,  // xfs
    0x9123683E,  // btrfs
    0x2FC12FC1,  // zfs
    0x01021994,  // tmpfs
    0x794C7630,  // overlayfs
};

void refuse_strangers(Database& database, std::int64_t version, std::int64_t known) {
  const bool ours = database.integer("PRAGMA application_id") == application_id;
  const bool empty = database.integer("SELECT count(*) FROM sqlite_schema") == 0;
  if (!ours && !empty) {
    fail(FaultKind::invalid_input,
         fmt::format("{} is a database, but not one of shardsweep's", database.name()));
  }
  if (version > known) {
    fail(FaultKind::rejected,
         fmt::format("{} was written by a newer shardsweep (schema version {}, this program "
                     "knows {}): use that version, or another --db",
                     database.name(), version, known));
  }
}

}  // namespace

void migrate(Database& database, std::span<const std::string> steps) {
  const auto known = static_cast<std::int64_t>(steps.size());
  refuse_strangers(database, database.integer("PRAGMA user_version"), known);
  while (database.integer("PRAGMA user_version") < known) {
    Transaction transaction(database);
    // Asked again under the lock: somebody else may have done it meanwhile.
    const auto version = database.integer("PRAGMA user_version");
    if (version >= known) break;
    database.execute(steps[static_cast<std::size_t>(version)]);
    if (version + 1 == known) database.execute(views_sql);
    database.execute(fmt::format("PRAGMA application_id = {}", application_id));
    database.execute(fmt::format("PRAGMA user_version = {}", version + 1));
    transaction.commit();
  }
}

void require_current(Database& database) {
  const auto known = static_cast<std::int64_t>(migrations().size());
  const auto version = database.integer("PRAGMA user_version");
  refuse_strangers(database, version, known);
  if (version < known) {
    fail(FaultKind::rejected,
         fmt::format("{} has schema version {}, this program reads {}: `shardsweep daemon` or "
                     "`shardsweep tick` brings it up to date",
                     database.name(), version, known));
  }
}

bool is_local_file_system(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  struct statfs about {};
  if (::statfs(folder.c_str(), &about) != 0) return false;
  const auto magic = static_cast<unsigned long>(about.f_type) & 0xffffffffUL;
  return std::find(local_file_systems.begin(), local_file_systems.end(), magic) !=
         local_file_systems.end();
}

void set_journal(Database& database, const std::filesystem::path& file) {
  const std::string wanted = is_local_file_system(file) ? "wal" : "delete";
  const auto got = database.text("PRAGMA journal_mode = " + wanted);
  if (got != wanted) {
    fail(FaultKind::busy, fmt::format("{}: the journal is '{}' and can't become '{}' now",
                                      database.name(), got, wanted));
  }
  // A measurement that was reported as durable must survive a power cut.
  database.execute("PRAGMA synchronous = FULL");
}

}  // namespace shardsweep::sqlite
