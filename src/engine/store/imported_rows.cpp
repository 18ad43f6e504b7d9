// SPDX-License-Identifier: Apache-2.0
#include "store/imported_rows.hpp"

#include "store/rows.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>

namespace shardsweep::sqlite {
namespace {

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  names.reserve(metric_table.size());
  for (const auto& metric : metric_table)
    names.emplace_back(metric.name);
  return names;
}

struct ImportedRowsSql {
  std::string changed =
      "SELECT t.slug, t.outcome, m.tokens_per_s_per_gpu, r.outcome, r.tokens_per_s_per_gpu "
      "FROM incoming_results AS r JOIN trials AS t ON t.sweep = ? AND t.identity = r.identity "
      "LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted = 1 LEFT JOIN measurements AS m "
      "ON m.attempt = a.id WHERE t.state = 'ended' AND (t.outcome <> r.outcome OR "
      "m.tokens_per_s_per_gpu IS NOT r.tokens_per_s_per_gpu) ORDER BY r.n LIMIT 1";
  std::string fresh = "SELECT count(*) FROM trials WHERE sweep = ? AND state = 'planned'";
  std::string allocation =
      "INSERT INTO allocations (sweep, token, job_name, job_id, dir, backend, nodes, "
      "slots_per_node, state, submission, job_state, created_at, claimed_at, last_beat, "
      "from_lead_n, said_bye, draining, end_reason, end_outcome, time_limit_s, detail, "
      "ended_at) VALUES (?1, lower(hex(randomblob(8))), 'import', '', '', 'imported', 1, 1, "
      "'ended', 'accepted', 'ended', ?2, 0, 0, 0, 1, 1, '', '', 0.0, '', ?2) RETURNING id";
  std::string version =
      "UPDATE trials SET runner_version = r.runner_version FROM incoming_results AS r WHERE "
      "trials.sweep = ?1 AND trials.identity = r.identity AND trials.state = 'planned'";
  std::string attempts =
      "INSERT INTO attempts (trial, number, allocation, nonce, dir, state, outcome, counted, "
      "cause, source) SELECT t.id, t.attempts + 1, ?2, lower(hex(randomblob(16))), '', "
      "'ended', "
      "r.outcome, r.outcome = 'completed', r.cause, 'import' FROM incoming_results AS r JOIN "
      "trials AS t ON t.sweep = ?1 AND t.identity = r.identity WHERE t.state = 'planned' "
      "ORDER BY r.n";
  std::string measurements = fmt::format(
      "INSERT INTO measurements (attempt, trial, flops_model, runner_version, software, hosts, "
      "detail, {}) SELECT a.id, t.id, r.flops_model, r.runner_version, '{{}}', '[]', '', {} "
      "FROM incoming_results AS r JOIN trials AS t ON t.sweep = ?1 AND t.identity = r.identity "
      "JOIN attempts AS a ON a.trial = t.id AND a.counted = 1 AND a.allocation = ?2",
      list(metric_names()), list(metric_names(), "r."));
  std::string ends =
      "UPDATE trials SET state = 'ended', outcome = r.outcome, cause = r.cause, attempts = "
      "attempts + 1 FROM incoming_results AS r WHERE trials.sweep = ?1 AND trials.identity = "
      "r.identity AND trials.state = 'planned'";
  // Nothing of it is to be run, and nothing of it is of the daemon's world.
  std::string over = "UPDATE sweeps SET state = 'cancelled' WHERE id = ?";
};

const ImportedRowsSql& imported_rows_sql() {
  static const ImportedRowsSql statements;
  return statements;
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
  if (one(database, imported_rows_sql().fresh, sweep) == 0) return;
  const auto allocation = one(database, imported_rows_sql().allocation, sweep, now);
  Statement(database, imported_rows_sql().version).run(sweep);
  Statement(database, imported_rows_sql().attempts).run(sweep, allocation);
  Statement(database, imported_rows_sql().measurements).run(sweep, allocation);
  Statement(database, imported_rows_sql().ends).run(sweep);
}

}  // namespace shardsweep::sqlite
