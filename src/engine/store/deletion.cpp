// SPDX-License-Identifier: Apache-2.0
#include "store/deletion.hpp"

#include "store/finals.hpp"
#include "store/row_sql.hpp"

#include <shardsweep/fail_point.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <vector>

namespace shardsweep::sqlite {
namespace {

using Json = nlohmann::json;

constexpr int most_pages = 4096;            ///< 16 MiB: more than a piece frees
constexpr std::int64_t trials_per_row = 5;  ///< trials that cost what an attempt does: no folders

struct DoomedRows {
  std::vector<std::int64_t> ids;
  std::vector<std::string> dirs;
};

DoomedRows some(Database& database, const char* text, SweepId sweep, std::int64_t rows) {
  DoomedRows doomed;
  Statement select(database, text);
  auto row = select.use(sweep, rows);
  while (row.next()) {
    doomed.ids.push_back(row.integer(0));
    doomed.dirs.push_back(row.text(1));
  }
  return doomed;
}

/// Statements with the ids as a JSON array.
template <std::size_t count>
void remove(Database& database, const std::array<const char*, count>& statements,
    const std::vector<std::int64_t>& ids) {
  const std::string list = Json(ids).dump();
  for (const char* const text : statements)
    Statement(database, text).run(list);
}

constexpr const char* attempts_of =
    "SELECT a.id, a.dir FROM attempts AS a JOIN trials AS t ON t.id = a.trial WHERE t.sweep = ?1 "
    "ORDER BY a.id LIMIT ?2";
constexpr const char* allocations_of =
    "SELECT id, dir FROM allocations WHERE sweep = ?1 ORDER BY id LIMIT ?2";
constexpr const char* trials_of = "SELECT id, '' FROM trials WHERE sweep = ?1 ORDER BY id LIMIT ?2";

// Statements that delete attempts. Evidence against a node stays, and forgets its attempt.
constexpr std::array<const char*, 5> of_attempts{
    "DELETE FROM events WHERE attempt IN (SELECT value FROM json_each(?1))",
    "UPDATE node_evidence SET attempt = NULL WHERE attempt IN (SELECT value FROM json_each(?1))",
    "DELETE FROM train_steps WHERE attempt IN (SELECT value FROM json_each(?1))",
    "DELETE FROM measurements WHERE attempt IN (SELECT value FROM json_each(?1))",
    "DELETE FROM attempts WHERE id IN (SELECT value FROM json_each(?1))"};
constexpr std::array<const char*, 5> of_allocations{
    "DELETE FROM events WHERE allocation IN (SELECT value FROM json_each(?1))",
    "DELETE FROM allocation_nodes WHERE allocation IN (SELECT value FROM json_each(?1))",
    "DELETE FROM probes WHERE allocation IN (SELECT value FROM json_each(?1))",
    "DELETE FROM controls WHERE allocation IN (SELECT value FROM json_each(?1))",
    "DELETE FROM allocations WHERE id IN (SELECT value FROM json_each(?1))"};
constexpr std::array<const char*, 3> of_trials{
    "DELETE FROM events WHERE trial IN (SELECT value FROM json_each(?1))",
    "UPDATE node_evidence SET trial = NULL WHERE trial IN (SELECT value FROM json_each(?1))",
    "DELETE FROM trials WHERE id IN (SELECT value FROM json_each(?1))"};
constexpr std::array<const char*, 4> of_sweeps{"DELETE FROM events WHERE sweep = ?1",
    "DELETE FROM left_out WHERE sweep = ?1", "DELETE FROM controls WHERE sweep = ?1",
    "DELETE FROM sweeps WHERE id = ?1"};

}  // namespace

SweepContents contents(Database& database, SweepId sweep) {
  Statement select(database,
      "SELECT (SELECT count(*) FROM trials WHERE sweep = ?1), (SELECT count(*) FROM attempts AS a "
      "JOIN trials AS t ON t.id = a.trial WHERE t.sweep = ?1), (SELECT count(*) FROM measurements "
      "AS m JOIN trials AS t ON t.id = m.trial WHERE t.sweep = ?1), (SELECT count(*) FROM attempts "
      "AS a JOIN trials AS t ON t.id = a.trial WHERE t.sweep = ?1 AND a.state <> 'ended') + "
      "(SELECT count(*) FROM allocations WHERE sweep = ?1 AND state <> 'ended')");
  auto row = select.use(sweep);
  SweepContents all;
  if (!row.next()) return all;
  read_fields(row, 0, all.trials, all.attempts, all.measurements, all.live);
  return all;
}

bool delete_piece(Database& database, SweepId sweep, std::int64_t rows,
    const Store::ForgetFolder& forget, const std::function<void()>& check_epoch) {
  const auto attempts = some(database, attempts_of, sweep, rows);
  for (const std::string& dir : attempts.dirs)
    forget(Store::Folder::attempt, dir);
  const bool more = !attempts.ids.empty();
  const auto allocations = more ? DoomedRows{} : some(database, allocations_of, sweep, rows);
  for (const std::string& dir : allocations.dirs)
    forget(Store::Folder::allocation, dir);
  const auto trials = more || !allocations.ids.empty()
      ? DoomedRows{}
      : some(database, trials_of, sweep, trials_per_row * rows);
  fail_point("delete.folders");
  Transaction transaction(database);
  check_epoch();
  Statement(database, "UPDATE sweeps SET state = 'cancelled', deleting = 1 WHERE id = ?1")
      .run(sweep);
  if (more) remove(database, of_attempts, attempts.ids);
  if (!allocations.ids.empty()) remove(database, of_allocations, allocations.ids);
  if (!trials.ids.empty()) remove(database, of_trials, trials.ids);
  const bool last = !more && allocations.ids.empty() && trials.ids.empty();
  if (last) {
    for (const char* const text : of_sweeps)
      Statement(database, text).run(sweep);
    Statement(database, unused_knowledge_sql).run();
  }
  fail_point("delete.rows");
  transaction.commit();
  fail_point("delete.piece");
  // Each piece gives what it has freed back to the file system, so that no tick waits for all of
  // it. An older database keeps its size: it was not made for this.
  database.execute(fmt::format("PRAGMA incremental_vacuum({})", most_pages));
  return last;
}

}  // namespace shardsweep::sqlite
