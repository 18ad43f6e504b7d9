// SPDX-License-Identifier: Apache-2.0
#include "store/imported_rows.hpp"

#include "store/line_columns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::sqlite {
namespace {

std::string literal_of_default(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "NULL" : literal(*text);
}

/// "coalesce(r.a, 0)": what a staged row leaves out has its column's default; trials and
/// allocations that it names are found in this database.
std::string staged(const LineColumn& column) {
  if (column.name == "final_of")
    return "(SELECT b.id FROM trials AS b WHERE b.sweep = ?1 AND b.slug = r.final_of)";
  const auto value =
      fmt::format("coalesce(r.{}, {})", column.name, literal_of_default(column.otherwise));
  if (column.name != "allocation") return value;
  return fmt::format("(SELECT l.id FROM allocations AS l WHERE l.token = ?1 || '/' || {})", value);
}

std::string staged(const std::vector<LineColumn>& columns) {
  std::string text;
  for (const auto& column : columns)
    text += (text.empty() ? "" : ", ") + staged(column);
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
      "SELECT t.slug, t.outcome, m.tokens_per_s_per_gpu, r.outcome, x.tokens_per_s_per_gpu FROM "
      "incoming_results AS r JOIN trials AS t ON t.sweep = ? AND t.identity = r.identity LEFT JOIN "
      "incoming_attempts AS x ON x.identity = r.identity AND x.counted = 1 LEFT JOIN attempts AS a "
      "ON a.trial = t.id AND a.counted = 1 LEFT JOIN measurements AS m ON m.attempt = a.id WHERE "
      "t.state = 'ended' AND (t.outcome <> r.outcome OR m.tokens_per_s_per_gpu IS NOT "
      "x.tokens_per_s_per_gpu) ORDER BY r.n LIMIT 1";
  std::string fresh = "SELECT count(*) FROM trials WHERE sweep = ? AND state = 'planned'";
  // One allocation for each that measured the import. With the sweep's id in front, a token can't
  // equal one of this database's own.
  std::string allocations =
      "INSERT INTO allocations (sweep, token, job_name, job_id, dir, backend, nodes, "
      "slots_per_node, state, submission, job_state, created_at, claimed_at, last_beat, "
      "from_lead_n, said_bye, draining, end_reason, end_outcome, time_limit_s, detail, ended_at) "
      "SELECT DISTINCT ?1, ?1 || '/' || coalesce(allocation, ''), 'import', '', '', 'imported', 1, "
      "1, 'ended', 'accepted', 'ended', ?2, 0, 0, 0, 1, 1, '', '', 0.0, '', ?2 FROM "
      "incoming_attempts WHERE true ON CONFLICT (token) DO NOTHING";
  // Known ones too: a later sweep file may no longer have them.
  std::string facts =
      "UPDATE trials SET runner = r.runner, runner_version = r.runner_version, hidden = "
      "coalesce(r.hidden, 0) FROM incoming_results AS r WHERE trials.sweep = ?1 AND "
      "trials.identity = r.identity";
  // An imported sweep counts as cancelled: nothing of it is to be run, or is of the daemon's world.
  std::string over = "UPDATE sweeps SET state = 'cancelled' WHERE id = ?";
};

const ImportedRowsSql& imported_rows_sql() {
  static const ImportedRowsSql statements;
  return statements;
}

/// Attempts of trials that are new, their measurements, and how these trials have ended.
void put_results(Database& database, SweepId sweep) {
  auto columns = line_columns(database);
  Statement(database,
      fmt::format(
          "INSERT INTO attempts (trial, nonce, dir, state, {}) SELECT t.id, "
          "lower(hex(randomblob(16))), '', 'ended', {} FROM incoming_attempts AS r JOIN trials AS "
          "t ON t.sweep = ?1 AND t.identity = r.identity WHERE t.state = 'planned' ORDER BY r.n",
          names_of_columns(columns.attempt), staged(columns.attempt)))
      .run(sweep);
  Statement(database,
      fmt::format("INSERT INTO measurements (attempt, trial, {}) SELECT a.id, t.id, {} FROM "
                  "incoming_attempts AS r JOIN trials AS t ON t.sweep = ?1 AND t.identity = "
                  "r.identity JOIN attempts AS a ON a.trial = t.id AND a.number = r.number WHERE "
                  "t.state = 'planned' AND r.measured = 1 ORDER BY r.n",
          names_of_columns(columns.measured), staged(columns.measured)))
      .run(sweep);
  std::erase_if(columns.trial, [](const LineColumn& column) {
    const auto& facts = trial_fact_columns();
    return std::find(facts.begin(), facts.end(), column.name) == facts.end();
  });
  std::string ends;
  for (const auto& column : columns.trial)
    ends += fmt::format("{}{} = {}", ends.empty() ? "" : ", ", column.name, staged(column));
  Statement(database,
      fmt::format(
          "UPDATE trials SET state = 'ended', {}, attempts = (SELECT ifnull(max(x.number), 0) FROM "
          "incoming_attempts AS x WHERE x.identity = r.identity) FROM incoming_results AS r WHERE "
          "trials.sweep = ?1 AND trials.identity = r.identity AND trials.state = 'planned'",
          ends))
      .run(sweep);
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
      fmt::format(
          "{} was imported as {} and is {} in the table now: import it under another --name",
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
  Statement(database, imported_rows_sql().allocations).run(sweep, now);
  put_results(database, sweep);
}

}  // namespace shardsweep::sqlite
