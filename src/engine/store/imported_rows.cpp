// SPDX-License-Identifier: Apache-2.0
#include "store/imported_rows.hpp"

#include "store/line_columns.hpp"

#include <fmt/format.h>

namespace shardsweep::sqlite {
namespace {

std::string literal_of_default(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "NULL" : literal(*text);
}

/// "coalesce(r.a, 0), r.b": what a staged row leaves out has its column's default.
std::string staged(const std::vector<LineColumn>& columns) {
  std::string text;
  for (const auto& column : columns)
    text += fmt::format("{}coalesce(r.{}, {})", text.empty() ? "" : ", ", column.name,
        literal_of_default(column.otherwise));
  return text;
}

std::string names_of_columns(const std::vector<LineColumn>& columns) {
  std::string text;
  for (const auto& column : columns)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", column.name);
  return text;
}

struct ImportedRowsSql {
  std::string changed =
      "SELECT t.slug, t.outcome, m.tokens_per_s_per_gpu, r.outcome, x.tokens_per_s_per_gpu "
      "FROM incoming_results AS r JOIN trials AS t ON t.sweep = ? AND t.identity = r.identity "
      "LEFT JOIN incoming_attempts AS x ON x.identity = r.identity AND x.counted = 1 "
      "LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted = 1 LEFT JOIN measurements AS m "
      "ON m.attempt = a.id WHERE t.state = 'ended' AND (t.outcome <> r.outcome OR "
      "m.tokens_per_s_per_gpu IS NOT x.tokens_per_s_per_gpu) ORDER BY r.n LIMIT 1";
  std::string fresh = "SELECT count(*) FROM trials WHERE sweep = ? AND state = 'planned'";
  std::string allocation =
      "INSERT INTO allocations (sweep, token, job_name, job_id, dir, backend, nodes, "
      "slots_per_node, state, submission, job_state, created_at, claimed_at, last_beat, "
      "from_lead_n, said_bye, draining, end_reason, end_outcome, time_limit_s, detail, "
      "ended_at) VALUES (?1, lower(hex(randomblob(8))), 'import', '', '', 'imported', 1, 1, "
      "'ended', 'accepted', 'ended', ?2, 0, 0, 0, 1, 1, '', '', 0.0, '', ?2) RETURNING id";
  // Known ones too: a later sweep file may no longer have them.
  std::string facts =
      "UPDATE trials SET runner = r.runner, runner_version = r.runner_version, hidden = "
      "coalesce(r.hidden, 0) FROM incoming_results AS r WHERE trials.sweep = ?1 AND "
      "trials.identity = r.identity";
  std::string ends =
      "UPDATE trials SET state = 'ended', outcome = r.outcome, cause = coalesce(r.cause, ''), "
      "cancelled_by = coalesce(r.cancelled_by, ''), fragmented = coalesce(r.fragmented, 0), "
      "expandable = coalesce(r.expandable, 0), charged = coalesce(r.charged, 0), elsewhere = "
      "coalesce(r.elsewhere, 0), final_round = coalesce(r.final_round, 0), final_set = "
      "coalesce(r.final_set, 0), final_sets = coalesce(r.final_sets, 1), final_resolve = "
      "coalesce(r.final_resolve, 0.0), final_of = (SELECT b.id FROM trials AS b WHERE b.sweep "
      "= ?1 AND b.slug = r.final_of), attempts = (SELECT ifnull(max(x.number), 0) FROM "
      "incoming_attempts AS x WHERE x.identity = r.identity) FROM incoming_results AS r WHERE "
      "trials.sweep = ?1 AND trials.identity = r.identity AND trials.state = 'planned'";
  // Nothing of it is to be run, and nothing of it is of the daemon's world.
  std::string over = "UPDATE sweeps SET state = 'cancelled' WHERE id = ?";
};

const ImportedRowsSql& imported_rows_sql() {
  static const ImportedRowsSql statements;
  return statements;
}

/// Attempts of trials that are new, and their measurements.
void put_attempts(Database& database, SweepId sweep, std::int64_t allocation) {
  const auto columns = line_columns(database);
  Statement(database,
      fmt::format("INSERT INTO attempts (trial, allocation, nonce, dir, state, {}) SELECT t.id, "
                  "?2, lower(hex(randomblob(16))), '', 'ended', {} FROM incoming_attempts AS r "
                  "JOIN trials AS t ON t.sweep = ?1 AND t.identity = r.identity WHERE t.state "
                  "= 'planned' ORDER BY r.n",
          names_of_columns(columns.attempt), staged(columns.attempt)))
      .run(sweep, allocation);
  Statement(database,
      fmt::format("INSERT INTO measurements (attempt, trial, {}) SELECT a.id, t.id, {} FROM "
                  "incoming_attempts AS r JOIN trials AS t ON t.sweep = ?1 AND t.identity = "
                  "r.identity JOIN attempts AS a ON a.trial = t.id AND a.number = r.number AND "
                  "a.allocation = ?2 WHERE r.measured = 1 ORDER BY r.n",
          names_of_columns(columns.measured), staged(columns.measured)))
      .run(sweep, allocation);
}

std::string told(const Statement::Use& row, int column) {
  if (row.null(column + 1)) return row.text(column);
  return fmt::format("{} tokens/s per GPU", row.real(column + 1));
}

void refuse_changed(Database& database, SweepId sweep) {
  Statement select(database, imported_rows_sql().changed);
  auto row = select.use(sweep);
  if (!row.next()) return;
  fail(FaultKind::invalid_input,
      fmt::format("{} was imported as {} and is {} in the table now: import it under another "
                  "--name",
          row.text(0), told(row, 1), told(row, 3)));
}

std::int64_t one(Database& database, const std::string& text, const auto&... values) {
  Statement statement(database, text);
  auto row = statement.use(values...);
  if (!row.next()) fail(FaultKind::corrupt, "a row did not come back");
  const auto value = row.integer(0);
  row.run();
  return value;
}

}  // namespace

void put_imported(Database& database, SweepId sweep, Timestamp now) {
  refuse_changed(database, sweep);
  Statement(database, imported_rows_sql().over).run(sweep);
  Statement(database, imported_rows_sql().facts).run(sweep);
  if (one(database, imported_rows_sql().fresh, sweep) == 0) return;
  put_attempts(database, sweep, one(database, imported_rows_sql().allocation, sweep, now));
  Statement(database, imported_rows_sql().ends).run(sweep);
}

}  // namespace shardsweep::sqlite
