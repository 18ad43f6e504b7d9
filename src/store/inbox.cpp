// SPDX-License-Identifier: Apache-2.0
#include "store/inbox.hpp"

#include "store/imported_rows.hpp"

#include <shardsweep/imported.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace shardsweep::sqlite {
namespace {

using Json = nlohmann::json;

constexpr int inbox_wait_ms = 100;  // nobody writes it any more

// Staging is made for one submission and dropped with it; a submission that was given up leaves
// its tables to the next one, which drops them.
const char* const drop_staging =
    "DROP TABLE IF EXISTS incoming; DROP TABLE IF EXISTS incoming_trials; "
    "DROP TABLE IF EXISTS incoming_left_out; DROP TABLE IF EXISTS incoming_results;";

/// Everything that a submission asks of the database, with the trials' columns from rows.hpp.
struct InboxSql {
  std::string taken = "SELECT id, report FROM sweeps WHERE submission = ?";
  std::string staged = "SELECT count(*) FROM sqlite_schema WHERE name = 'incoming'";
  std::string sweep =
      "INSERT INTO sweeps (name, state, source, resolved, resolved_hash, backend, site, "
      "job_template, cluster, "
      "runner, runner_version, vars, left_out, points, duplicates, revision, submission, "
      "report, submitted_at) VALUES (?1, 'active', ?2, ?3, ?4, ?5, ?15, ?16, ?6, ?7, ?8, ?9, "
      "?10, ?11, ?12, 1, ?13, '{}', ?14) ON CONFLICT (name) DO UPDATE SET "
      "state = CASE state WHEN 'cancelled' THEN 'active' ELSE state END, "
      "failed_starts = 0, failed_nodes = 0, deleting = 0, "
      "source = ?2, resolved = ?3, resolved_hash = ?4, backend = ?5, site = ?15, "
      "job_template = ?16, cluster = ?6, "
      "runner = ?7, runner_version = ?8, vars = ?9, left_out = ?10, points = ?11, "
      "duplicates = ?12, revision = revision + 1, submission = ?13, submitted_at = ?14 "
      "RETURNING id, revision > 1";
  // Those that stay or come back take the new file's order. What has ended keeps the prediction
  // that it was ranked by. The runner's name is part of the identity; older versions of this
  // program stored the sweep file's word in its place.
  std::string known =
      "UPDATE trials SET runner = ?2, position = i.position, lane = i.lane, hidden = 0, "
      "predicted_memory_bytes = iif(trials.state = 'ended', trials.predicted_memory_bytes, "
      "i.predicted_memory_bytes), "
      "predicted_train_step_s = iif(trials.state = 'ended', trials.predicted_train_step_s, "
      "i.predicted_train_step_s), "
      "predicted_attempt_s = iif(trials.state = 'ended', trials.predicted_attempt_s, "
      "i.predicted_attempt_s), "
      "predicted_tokens_per_s_per_gpu = iif(trials.state = 'ended', "
      "trials.predicted_tokens_per_s_per_gpu, i.predicted_tokens_per_s_per_gpu) "
      "FROM incoming_trials AS i WHERE trials.sweep = ?1 AND trials.identity = i.identity";
  std::string gone =
      "UPDATE trials SET hidden = 1 WHERE sweep = ?1 AND hidden = 0 AND identity NOT IN "
      "(SELECT identity FROM incoming_trials)";
  std::string edited = "SELECT count(*) FROM sweeps WHERE name = ?1 AND resolved_hash <> ?2";
  std::string skipped =
      "UPDATE trials SET state = 'planned', outcome = NULL, cause = '' WHERE sweep = ?1 AND "
      "hidden = 0 AND outcome = 'skipped'";
  std::string outcomes =
      "SELECT outcome, count(*) FROM trials WHERE sweep = ?1 AND hidden = 0 AND "
      "outcome IS NOT NULL GROUP BY outcome";
  // A slug ends in digits of the identity; should two of different submissions be equal all the
  // same, the newer one gets more of its identity.
  std::string fresh = fmt::format(
      "INSERT INTO trials (sweep, runner, runner_version, {0}) SELECT ?1, ?2, ?3, "
      "iif(EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = ?1 AND t.slug = i.slug), "
      "i.slug || '-' || substr(i.identity, 1, 12), i.slug), {1} FROM incoming_trials AS i "
      "WHERE NOT EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = ?1 AND "
      "t.identity = i.identity) ORDER BY i.n",
      list(submitted_columns()),
      list({submitted_columns().begin() + 1, submitted_columns().end()}, "i."));
  std::string clear_left_out = "DELETE FROM left_out WHERE sweep = ?1";
  std::string left_out = fmt::format(
      "INSERT INTO left_out (sweep, {0}) SELECT ?1, {0} FROM incoming_left_out ORDER BY n",
      list(left_out_columns()));
  std::string backend = "SELECT backend FROM sweeps WHERE name = ?";
  std::string report = "UPDATE sweeps SET report = ?2 WHERE id = ?1";
  std::string event = "INSERT INTO events (at, sweep, kind, detail) VALUES (?, ?, ?, ?)";
};

const InboxSql& inbox_sql() {
  static const InboxSql statements;
  return statements;
}

std::string to_json(const SubmitReport& report) {
  return Json{{"name", report.name},           {"resubmitted", report.resubmitted},
              {"trials", report.trials},       {"fresh", report.fresh},
              {"known", report.known},         {"measured", report.measured},
              {"undecided", report.undecided}, {"gone", report.gone},
              {"left_out", report.left_out}}
      .dump();
}

SubmitReport from_json(SweepId sweep, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto count = [&](const char* key) { return json.value(key, std::int64_t{0}); };
  return {sweep,
          json.value("name", std::string()),
          json.value("resubmitted", false),
          count("trials"),
          count("fresh"),
          count("known"),
          count("measured"),
          count("undecided"),
          count("gone"),
          count("left_out")};
}

void begin_staging(Database& database, const std::string& nonce) {
  if (database.integer(inbox_sql().staged) != 0) {
    if (database.text("SELECT nonce FROM incoming") == nonce) return;
  }
  database.execute(drop_staging);
  database.execute("CREATE TABLE incoming (nonce TEXT NOT NULL)");
  database.execute(inbox_tables("incoming_"));
  Statement(database, "INSERT INTO incoming VALUES (?)").run(nonce);
}

/// Copies at most `limit` rows that are not there yet, by their numbers; returns how many.
std::int64_t copy_piece(Database& inbox, Database& database, const std::string& table,
                        const std::vector<std::string>& columns, std::int64_t limit) {
  const auto done = database.integer(fmt::format("SELECT max(n) FROM incoming_{}", table));
  Statement select(inbox, fmt::format("SELECT n, {} FROM {} WHERE n > ? ORDER BY n LIMIT ?",
                                      list(columns), table));
  Statement insert(database, fmt::format("INSERT INTO incoming_{} (n, {}) VALUES ({})", table,
                                         list(columns), places(columns.size() + 1)));
  std::int64_t copied = 0;
  auto row = select.use(done, limit);
  while (row.next()) {
    auto copy = insert.use();
    for (int column = 0; column <= static_cast<int>(columns.size()); ++column)
      copy.bind_value(row.value(column));
    copy.run();
    ++copied;
  }
  return copied;
}

/// True when all of the inbox is staged.
bool stage(Database& inbox, Database& database, const Submitted& submitted, std::int64_t rows,
           const CheckEpoch& check_epoch) {
  Transaction transaction(database);
  check_epoch();
  begin_staging(database, submitted.nonce);
  auto copied = copy_piece(inbox, database, "trials", submitted_columns(), rows);
  if (copied < rows)
    copied += copy_piece(inbox, database, "left_out", left_out_columns(), rows - copied);
  if (copied < rows)
    copied += copy_piece(inbox, database, "results", imported_columns(), rows - copied);
  transaction.commit();
  return copied < rows;
}

void count_outcomes(Database& database, SubmitReport& report) {
  Statement select(database, inbox_sql().outcomes);
  auto row = select.use(report.sweep);
  while (row.next()) {
    const auto outcome = read_outcome(row, 0);
    report.measured += row.integer(1);
    if (!info(*outcome).final_verdict) report.undecided += row.integer(1);
  }
}

bool is_edited(Database& database, const Submitted& submitted) {
  Statement select(database, inbox_sql().edited);
  auto row = select.use(submitted.name, submitted.resolved_hash);
  return row.next() && row.integer(0) != 0;
}

/// What was measured elsewhere and what is measured here are never of one sweep.
void refuse_other_kind(Database& database, const Submitted& submitted) {
  Statement select(database, inbox_sql().backend);
  auto row = select.use(submitted.name);
  if (!row.next()) return;
  const bool was_imported = row.view(0) == imported_backend;
  if (was_imported == (submitted.backend == imported_backend)) return;
  const auto* const why = was_imported
                              ? "is the name of an imported sweep: choose another"
                              : "is the name of a sweep that was submitted: import the table "
                                "under another --name";
  fail(FaultKind::invalid_input, fmt::format("'{}' {}", submitted.name, why));
}

SubmitReport merge(Database& database, const Submitted& submitted, Timestamp now) {
  SubmitReport report;
  report.name = submitted.name;
  refuse_other_kind(database, submitted);
  const bool edited = is_edited(database, submitted);
  {
    Statement upsert(database, inbox_sql().sweep);
    auto row = upsert.use(submitted.name, submitted.source, submitted.resolved,
                          submitted.resolved_hash, submitted.backend, submitted.cluster,
                          submitted.runner, submitted.runner_version, submitted.vars,
                          submitted.left_out, submitted.points, submitted.duplicates,
                          submitted.nonce, now, submitted.site, submitted.job_template);
    if (!row.next()) fail(FaultKind::corrupt, "the sweep's row did not come back");
    report.sweep = row.integer(0);
    report.resubmitted = row.integer(1) != 0;
    row.run();
  }
  const auto change = [&](const std::string& text, const auto&... values) {
    Statement(database, text).run(report.sweep, values...);
    return database.changed();
  };
  report.gone = change(inbox_sql().gone);
  report.known = change(inbox_sql().known, submitted.runner);
  if (edited) change(inbox_sql().skipped);
  count_outcomes(database, report);
  report.fresh = change(inbox_sql().fresh, submitted.runner, submitted.runner_version);
  report.trials = report.known + report.fresh;
  if (submitted.backend == imported_backend) put_imported(database, report.sweep, now);
  change(inbox_sql().clear_left_out);
  report.left_out = change(inbox_sql().left_out);
  change(inbox_sql().report, to_json(report));
  Statement(database, inbox_sql().event)
      .run(now, report.sweep, "submitted",
           fmt::format("{} trials: {} new, {} known ({} with an outcome), {} gone; {} left out",
                       report.trials, report.fresh, report.known, report.measured, report.gone,
                       report.left_out));
  database.execute(drop_staging);
  return report;
}

std::optional<SubmitReport> taken_over(Database& database, const std::string& nonce) {
  Statement select(database, inbox_sql().taken);
  auto row = select.use(nonce);
  if (!row.next()) return std::nullopt;
  return from_json(row.integer(0), row.text(1));
}

}  // namespace

Store::InboxProgress accept(Database& database, const std::filesystem::path& file,
                            Timestamp now, std::int64_t rows, const CheckEpoch& check_epoch) {
  Database inbox(file, OpenMode::frozen, inbox_wait_ms);
  const auto submitted = read_submission(inbox);
  if (const auto report = taken_over(database, submitted.nonce)) return {true, *report};
  if (!stage(inbox, database, submitted, std::max<std::int64_t>(rows, 1), check_epoch))
    return {};
  Transaction transaction(database);
  check_epoch();
  auto report = merge(database, submitted, now);
  transaction.commit();
  return {true, std::move(report)};
}

}  // namespace shardsweep::sqlite
