// SPDX-License-Identifier: Apache-2.0
// Decision: A submission is stored in pieces, each a transaction with its progress, so that
// 10^5 trials hold no other request up. A new sweep is paused until all is there. New trials of
// an edited sweep are hidden until the new file is in force, gone ones before it is: a crash in
// between leaves nothing that runs under the wrong file.

#include "store/inbox.hpp"

#include "store/line_columns.hpp"
#include "store/sqlite.hpp"
#include "text/pieces.hpp"

#include <shardsweep/change.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/imported.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep::sqlite {
namespace {

// Measurements from elsewhere, as the rows of trials that have ended.

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
  return join_texts(columns, ", ", [](const LineColumn& column) { return staged(column); });
}

std::string names_of_columns(const std::vector<LineColumn>& columns) {
  return join_texts(columns, ", ", [](const auto& column) { return column.name; });
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
      "{} was imported as {} and is {} in the table now: import it under another --name",
      row.text(0), told(row, 1), told(row, 3));
}

std::int64_t one(Database& database, const std::string& text, const auto&... values) {
  Statement statement(database, text);
  auto row = statement.use(values...);
  if (!row.next()) fail(FaultKind::corrupt, "a row did not come back");
  const auto value = row.integer(0);
  row.run();
  return value;
}

/// Inside the transaction that takes an import over: gives each of its new trials (`planned`)
/// an attempt, the measurement and the end that the staged table says. A trial that was
/// imported before and has another outcome or speed now is a fault (invalid_input): nothing
/// measured is ever relabelled.
void put_imported(Database& database, SweepId sweep, Timestamp now) {
  refuse_changed(database, sweep);
  Statement(database, imported_rows_sql().over).run(sweep);
  Statement(database, imported_rows_sql().facts).run(sweep);
  if (one(database, imported_rows_sql().fresh, sweep) == 0) return;
  Statement(database, imported_rows_sql().allocations).run(sweep, now);
  put_results(database, sweep);
}

using Json = nlohmann::json;

constexpr int inbox_wait_ms = 100;  // short: nobody writes an inbox any more

// Staging is made for one submission and dropped with it; a submission that was given up leaves
// its tables to the next one, which drops them.
const char* const drop_staging =
    "DROP TABLE IF EXISTS incoming; DROP TABLE IF EXISTS incoming_submission; DROP TABLE IF EXISTS "
    "incoming_trials; DROP TABLE IF EXISTS incoming_left_out; DROP TABLE IF EXISTS "
    "incoming_results; DROP TABLE IF EXISTS incoming_attempts;";

/// Statements of a submission, with the trials' columns from rows.hpp.
struct InboxSql {
  std::string taken = "SELECT id, report FROM sweeps WHERE submission = ?";
  std::string staged = "SELECT count(*) FROM sqlite_schema WHERE name = 'incoming_submission'";
  // How far it has come: a crash loses a piece at most.
  std::string staging =
      "CREATE TABLE incoming_submission (nonce TEXT NOT NULL, copied INTEGER NOT NULL DEFAULT 0, "
      "sweep INTEGER NOT NULL DEFAULT 0, first INTEGER NOT NULL DEFAULT 0, edited INTEGER NOT NULL "
      "DEFAULT 0, placed INTEGER NOT NULL DEFAULT 0, fresh INTEGER NOT NULL DEFAULT 0, looked_at "
      "INTEGER NOT NULL DEFAULT 0, gone INTEGER NOT NULL DEFAULT 0, in_force INTEGER NOT NULL "
      "DEFAULT 0, refreshed INTEGER NOT NULL DEFAULT 0)";
  std::string progress =
      "SELECT copied, sweep, first, edited, placed, fresh, looked_at, gone, in_force, refreshed "
      "FROM incoming_submission";
  std::string set_progress =
      "UPDATE incoming_submission SET copied = ?, sweep = ?, first = ?, edited = ?, placed = ?, "
      "fresh = ?, looked_at = ?, gone = ?, in_force = ?, refreshed = ?";
  std::string sweep_of = "SELECT id, revision, resolved_hash FROM sweeps WHERE name = ?";
  // A new sweep is paused until all of its trials are there.
  std::string begin =
      "UPDATE sweeps SET state = 'paused', revision = 0, submission = '', held = 'Its trials are "
      "being stored.' WHERE id = ?";
  std::string sweep =
      "INSERT INTO sweeps (name, state, source, resolved, resolved_hash, backend, site, "
      "job_template, cluster, runner, runner_version, vars, left_out, points, duplicates, "
      "revision, submission, report, submitted_at) VALUES (?1, 'active', ?2, ?3, ?4, ?5, ?15, ?16, "
      "?6, ?7, ?8, ?9, ?10, ?11, ?12, 1, ?13, '{}', ?14) ON CONFLICT (name) DO UPDATE SET state = "
      "iif(state = 'cancelled' OR revision = 0, 'active', state), held = iif(revision = 0, '', "
      "held), failed_starts = 0, failed_nodes = 0, deleting = 0, source = ?2, resolved = ?3, "
      "resolved_hash = ?4, backend = ?5, site = ?15, job_template = ?16, cluster = ?6, runner = "
      "?7, runner_version = ?8, vars = ?9, left_out = ?10, points = ?11, duplicates = ?12, "
      "revision = revision + 1, submission = ?13, submitted_at = ?14 RETURNING id, revision > 1";
  // Trials that stay or come back take the new file's order. Ended ones keep the prediction that
  // they were ranked by. The runner's name is part of the identity; older versions of this program
  // stored the sweep file's word in its place. The unary plus makes SQLite begin with the numbers
  // of incoming rows, and never scan the sweep.
  std::string known =
      "UPDATE trials SET runner = ?2, position = i.position, lane = i.lane, hidden = 0, "
      "predicted_memory_bytes = iif(trials.state = 'ended', trials.predicted_memory_bytes, "
      "i.predicted_memory_bytes), predicted_train_step_s = iif(trials.state = 'ended', "
      "trials.predicted_train_step_s, i.predicted_train_step_s), predicted_attempt_s = "
      "iif(trials.state = 'ended', trials.predicted_attempt_s, i.predicted_attempt_s), "
      "predicted_tokens_per_s_per_gpu = iif(trials.state = 'ended', "
      "trials.predicted_tokens_per_s_per_gpu, i.predicted_tokens_per_s_per_gpu) FROM "
      "incoming_trials AS i WHERE trials.sweep = ?1 AND trials.identity = +i.identity AND i.n > ?3 "
      "AND i.n <= ?4";
  std::string trial_ids =
      "SELECT ifnull(min(id), 0), ifnull(max(id), 0) FROM trials WHERE sweep = ?";
  std::string gone =
      "UPDATE trials SET hidden = 1 WHERE id > ?2 AND id <= ?3 AND +sweep = ?1 AND +hidden = 0 AND "
      "final_of IS NULL AND NOT EXISTS (SELECT 1 FROM incoming_trials AS i WHERE i.identity = "
      "trials.identity)";
  // A run in the finals is in the file as its layout is.
  std::string finals =
      "UPDATE trials SET hidden = (SELECT b.hidden FROM trials AS b WHERE b.id = trials.final_of) "
      "WHERE sweep = ?1 AND final_of IS NOT NULL";
  // An attempt of a skipped trial that still runs was to be cancelled. Whatever comes of it, the
  // trial goes on without it.
  std::string revoked =
      "UPDATE attempts SET revoked = 1 WHERE state <> 'ended' AND trial IN (SELECT id FROM trials "
      "WHERE sweep = ?1 AND hidden = 0 AND outcome = 'skipped')";
  std::string skipped =
      "UPDATE trials SET state = 'planned', outcome = NULL, cause = '' WHERE sweep = ?1 AND hidden "
      "= 0 AND outcome = 'skipped'";
  std::string outcomes =
      "SELECT outcome, count(*) FROM trials WHERE sweep = ?1 AND hidden = 0 AND outcome IS NOT "
      "NULL AND final_of IS NULL GROUP BY outcome";
  // A slug ends in digits of the identity; should two of different submissions be equal all the
  // same, the newer one gets more of its identity.
  std::string fresh = fmt::format(
      "INSERT INTO trials (sweep, runner, runner_version, hidden, {0}) SELECT ?1, ?2, ?3, ?4, "
      "iif(EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = ?1 AND t.slug = i.slug), i.slug || "
      "'-' || substr(i.identity, 1, 12), i.slug), {1} FROM incoming_trials AS i WHERE NOT EXISTS "
      "(SELECT 1 FROM trials AS t WHERE t.sweep = ?1 AND t.identity = i.identity) AND i.n > ?5 AND "
      "i.n <= ?6 ORDER BY i.n",
      list(submitted_columns()),
      list({submitted_columns().begin() + 1, submitted_columns().end()}, "i."));
  std::string clear_left_out = "DELETE FROM left_out WHERE sweep = ?1";
  std::string left_out = fmt::format(
      "INSERT INTO left_out (sweep, {0}) SELECT ?1, {0} FROM incoming_left_out ORDER BY n",
      list(left_out_columns()));
  std::string activate =
      "UPDATE sweeps SET state = iif(state = 'cancelled', 'active', state), failed_starts = 0, "
      "failed_nodes = 0 WHERE id = ?";
  std::string backend = "SELECT backend FROM sweeps WHERE name = ?";
  std::string report = "UPDATE sweeps SET report = ?2, submission = ?3 WHERE id = ?1";
  std::string event = "INSERT INTO events (at, sweep, kind, detail) VALUES (?, ?, ?, ?)";
};

const InboxSql& inbox_sql() {
  static const InboxSql statements;
  return statements;
}

std::string to_json(const SubmitReport& report) {
  return Json{{"name", report.name}, {"resubmitted", report.resubmitted}, {"trials", report.trials},
      {"fresh", report.fresh}, {"known", report.known}, {"measured", report.measured},
      {"undecided", report.undecided}, {"gone", report.gone}, {"left_out", report.left_out}}
      .dump();
}

SubmitReport from_json(SweepId sweep, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto count = [&](const char* key) { return json.value(key, std::int64_t{0}); };
  return {sweep, json.value("name", std::string()), json.value("resubmitted", false),
      count("trials"), count("fresh"), count("known"), count("measured"), count("undecided"),
      count("gone"), count("left_out")};
}

void begin_staging(Database& database, const std::string& nonce) {
  if (database.integer(inbox_sql().staged) != 0) {
    if (database.text("SELECT nonce FROM incoming_submission") == nonce) return;
  }
  database.execute(drop_staging);
  database.execute(inbox_sql().staging);
  database.execute(inbox_tables("incoming_"));
  Statement(database, "INSERT INTO incoming_submission (nonce) VALUES (?)").run(nonce);
}

/// Copies at most `limit` rows that are not there yet, by their numbers; returns how many.
std::int64_t copy_piece(Database& inbox, Database& database, const std::string& table,
    const std::vector<std::string>& columns, std::int64_t limit) {
  const auto done = database.integer(fmt::format("SELECT max(n) FROM incoming_{}", table));
  Statement select(inbox,
      fmt::format("SELECT n, {} FROM {} WHERE n > ? ORDER BY n LIMIT ?", list(columns), table));
  Statement insert(database,
      fmt::format("INSERT INTO incoming_{} (n, {}) VALUES ({})", table, list(columns),
          places(columns.size() + 1)));
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

void count_outcomes(Database& database, SubmitReport& report) {
  Statement select(database, inbox_sql().outcomes);
  auto row = select.use(report.sweep);
  while (row.next()) {
    const auto outcome = read_outcome(row, 0);
    report.measured += row.integer(1);
    if (!info(*outcome).final_verdict) report.undecided += row.integer(1);
  }
}

/// Refuses an import under a submitted sweep's name, and a submission under an imported one's.
/// Measurements from elsewhere are never of one sweep with those made here.
void refuse_other_kind(Database& database, const SubmissionRow& submitted) {
  Statement select(database, inbox_sql().backend);
  auto row = select.use(submitted.name);
  if (!row.next()) return;
  const bool was_imported = row.view(0) == word_of(Backend::imported);
  if (was_imported == (submitted.backend == Backend::imported)) return;
  const auto* const why = was_imported
      ? "is the name of an imported sweep: choose another"
      : "is the name of a sweep that was submitted: import the table under another --name";
  fail(FaultKind::invalid_input, "'{}' {}", submitted.name, why);
}

/// How far a submission has come; the columns of incoming_submission.
struct TakeoverState {
  bool copied = false;         ///< inbox is staged as a whole
  SweepId sweep = 0;           ///< 0: its row is not there yet
  bool first = false;          ///< the sweep's first submission
  bool edited = false;         ///< file is another than before
  std::int64_t placed = 0;     ///< incoming trials up to this number are in the sweep
  std::int64_t fresh = 0;      ///< new ones among the placed
  std::int64_t looked_at = 0;  ///< the sweep's trials up to this id: gone from the file or not
  std::int64_t gone = 0;       ///< trials gone from the file, among those looked at
  bool in_force = false;       ///< the sweep's row has the new file
  std::int64_t refreshed =
      0;  ///< incoming trials up to this number: known ones are as the file says
};

/// Takes a submission over, a bounded piece per call. What is new is hidden until the new file
/// is in force, and what is gone before that: whatever a daemon finds after a crash in between
/// fits the file that it finds.
class Takeover {
 public:
  Takeover(Database& inbox, Database& database, const SubmissionRow& submitted, Timestamp now)
      : inbox_(inbox), database_(database), submitted_(submitted), now_(now) {}

  /// Handles about `rows` rows, and returns the report once all is done.
  std::optional<SubmitReport> go_on(std::int64_t rows) {
    begin_staging(database_, submitted_.nonce);
    read();
    left_ = rows;
    copy();
    // An import may still be refused, and then it has changed nothing.
    constexpr std::int64_t all_rows = std::int64_t{1} << 40;
    if (left_ > 0 && submitted_.backend == Backend::imported) left_ = all_rows;
    if (left_ > 0) begin_sweep();
    if (left_ > 0 && taken_.placed == 0) hide_gone();
    if (left_ > 0) place();
    if (left_ > 0) put_in_force();
    if (left_ > 0) refresh_known();
    if (left_ > 0) return finish();
    write();
    return std::nullopt;
  }

 private:
  void read() {
    Statement select(database_, inbox_sql().progress);
    auto row = select.use();
    if (!row.next()) fail(FaultKind::corrupt, "the staging tables are empty");
    taken_ = {row.integer(0) != 0, row.integer(1), row.integer(2) != 0, row.integer(3) != 0,
        row.integer(4), row.integer(5), row.integer(6), row.integer(7), row.integer(8) != 0,
        row.integer(9)};
    row.run();
    trials_ = database_.integer("SELECT ifnull(max(n), 0) FROM incoming_trials");
  }
  void write() {
    Statement(database_, inbox_sql().set_progress)
        .run(taken_.copied, taken_.sweep, taken_.first, taken_.edited, taken_.placed, taken_.fresh,
            taken_.looked_at, taken_.gone, taken_.in_force, taken_.refreshed);
  }
  template <class... Values>
  std::int64_t change(const std::string& text, const Values&... values) {
    Statement(database_, text).run(values...);
    return database_.changed();
  }

  void copy() {
    if (taken_.copied) return;
    const auto copied = [this](const std::string& table, const auto& columns) {
      if (left_ > 0) left_ -= copy_piece(inbox_, database_, table, columns, left_);
    };
    copied("trials", submitted_columns());
    copied("left_out", left_out_columns());
    copied("results", imported_columns());
    copied("attempts", imported_attempt_columns());
    taken_.copied = left_ > 0;
    trials_ = database_.integer("SELECT ifnull(max(n), 0) FROM incoming_trials");
  }

  /// A sweep that is not there yet gets its row, so that trials can be of it.
  void begin_sweep() {
    if (taken_.sweep != 0) return;
    refuse_other_kind(database_, submitted_);
    Statement select(database_, inbox_sql().sweep_of);
    auto row = select.use(submitted_.name);
    if (row.next()) {
      taken_.sweep = row.integer(0);
      // A sweep whose first submission was given up half-way is still at revision 0.
      taken_.first = row.integer(1) == 0;
      taken_.edited = row.view(2) != submitted_.resolved_hash;
      row.run();
      return;
    }
    row.run();
    taken_.first = true;
    taken_.sweep = put_sweep();
    change(inbox_sql().begin, taken_.sweep);
  }

  /// The sweep's row as the submission has it.
  SweepId put_sweep() {
    const SubmissionRow& s = submitted_;
    Statement upsert(database_, inbox_sql().sweep);
    auto row = upsert.use(s.name, s.source, s.resolved, s.resolved_hash, word_of(s.backend),
        s.cluster, s.runner, s.runner_version, s.vars, s.left_out, s.points, s.duplicates, "", now_,
        s.site, s.job_template);
    if (!row.next()) fail(FaultKind::corrupt, "the sweep's row did not come back");
    const SweepId id = row.integer(0);
    row.run();
    return id;
  }

  /// The end of the next piece of what goes from `done` to `last`.
  static std::int64_t piece(std::int64_t done, std::int64_t last, std::int64_t rows) {
    return std::min(last, done + std::max<std::int64_t>(1, rows));
  }

  void hide_gone() {
    Statement select(database_, inbox_sql().trial_ids);
    auto row = select.use(taken_.sweep);
    if (!row.next()) fail(FaultKind::corrupt, "a count did not come back");
    taken_.looked_at = std::max(taken_.looked_at, row.integer(0) - 1);
    const auto last = row.integer(1);
    row.run();
    while (left_ > 0 && taken_.looked_at < last) {
      const auto to = piece(taken_.looked_at, last, 4 * left_);
      const auto gone = change(inbox_sql().gone, taken_.sweep, taken_.looked_at, to);
      left_ -= gone + (to - taken_.looked_at) / 4;
      taken_.gone += gone;
      taken_.looked_at = to;
    }
  }

  void place() {
    while (left_ > 0 && taken_.placed < trials_) {
      // A row with its indexes costs as much as two that are staged.
      const auto to = piece(taken_.placed, trials_, left_ / 2);
      taken_.fresh += change(inbox_sql().fresh, taken_.sweep, submitted_.runner,
          submitted_.runner_version, std::int64_t{taken_.first ? 0 : 1}, taken_.placed, to);
      left_ -= 2 * (to - taken_.placed);
      taken_.placed = to;
    }
  }

  void put_in_force() {
    if (taken_.in_force) return;
    taken_.in_force = true;
    put_sweep();
    // New trials are as the file says: a first submission that has no others needs no refresh.
    if (taken_.first && taken_.fresh == trials_) taken_.refreshed = trials_;
  }

  void refresh_known() {
    while (left_ > 0 && taken_.refreshed < trials_) {
      const auto to = piece(taken_.refreshed, trials_, left_ / 2);
      change(inbox_sql().known, taken_.sweep, submitted_.runner, taken_.refreshed, to);
      left_ -= 2 * (to - taken_.refreshed);
      taken_.refreshed = to;
    }
  }

  SubmitReport finish() {
    SubmitReport report;
    report.sweep = taken_.sweep;
    report.name = submitted_.name;
    report.resubmitted = !taken_.first;
    report.trials = trials_;
    report.fresh = taken_.fresh;
    report.known = trials_ - taken_.fresh;
    report.gone = taken_.gone;
    // Again: what the daemon has stored of the sweep since then was of the old file.
    change(inbox_sql().activate, taken_.sweep);
    change(inbox_sql().finals, taken_.sweep);
    if (taken_.edited) {
      change(inbox_sql().revoked, taken_.sweep);
      change(inbox_sql().skipped, taken_.sweep);
    }
    count_outcomes(database_, report);
    if (submitted_.backend == Backend::imported) put_imported(database_, report.sweep, now_);
    change(inbox_sql().clear_left_out, taken_.sweep);
    report.left_out = change(inbox_sql().left_out, taken_.sweep);
    change(inbox_sql().report, taken_.sweep, to_json(report), submitted_.nonce);
    change(inbox_sql().event, now_, report.sweep, "submitted",
        fmt::format("{} trials: {} new, {} known ({} with an outcome), {} gone; {} left out",
            report.trials, report.fresh, report.known, report.measured, report.gone,
            report.left_out));
    database_.execute(drop_staging);
    return report;
  }

  Database& inbox_;
  Database& database_;
  const SubmissionRow& submitted_;
  Timestamp now_;
  TakeoverState taken_;
  std::int64_t trials_ = 0;  ///< staged
  std::int64_t left_ = 0;    ///< rows that this piece may still cost
};

std::optional<SubmitReport> taken_over(Database& database, const std::string& nonce) {
  Statement select(database, inbox_sql().taken);
  auto row = select.use(nonce);
  if (!row.next()) return std::nullopt;
  return from_json(row.integer(0), row.text(1));
}

void add(SubmitReport& all, const SubmitReport& one) {
  all.sweep = one.sweep;
  all.name += (all.name.empty() ? "" : ", ") + one.name;
  all.resubmitted = all.resubmitted || one.resubmitted;
  all.trials += one.trials;
  all.fresh += one.fresh;
  all.known += one.known;
  all.measured += one.measured;
  all.undecided += one.undecided;
  all.gone += one.gone;
  all.left_out += one.left_out;
}

/// Imports that belong together: all of them or none. The order is that of their names.
Store::InboxProgress accept_together(Database& database, const std::filesystem::path& folder,
    Timestamp now, const CheckEpoch& check_epoch) {
  std::vector<std::filesystem::path> files;
  std::error_code why;
  for (std::filesystem::directory_iterator entry(folder, why), end; !why && entry != end;
       entry.increment(why))
    files.push_back(entry->path());
  if (why || files.empty())
    fail(FaultKind::unavailable, "{}: {}", folder.string(),
        why ? why.message() : "no submission in it");
  std::sort(files.begin(), files.end());
  constexpr std::int64_t all_rows = std::int64_t{1} << 40;
  SubmitReport all;
  Transaction transaction(database);
  check_epoch();
  for (const auto& file : files) {
    Database inbox(file, OpenMode::frozen, inbox_wait_ms);
    const auto submitted = read_submission(inbox);
    if (submitted.backend != Backend::imported)
      fail(FaultKind::corrupt, "{} is no import", file.string());
    auto report = taken_over(database, submitted.nonce);
    if (!report) report = Takeover(inbox, database, submitted, now).go_on(all_rows);
    if (!report) fail(FaultKind::corrupt, "{} has no end", file.string());
    add(all, *report);
  }
  fail_point("inbox.piece");
  transaction.commit();
  fail_point("inbox.in_force");
  return {true, std::move(all)};
}

}  // namespace

Store::InboxProgress accept(Database& database, const std::filesystem::path& file, Timestamp now,
    std::int64_t rows, const CheckEpoch& check_epoch) {
  std::error_code none;
  if (std::filesystem::is_directory(std::filesystem::symlink_status(file, none)))
    return accept_together(database, file, now, check_epoch);
  Database inbox(file, OpenMode::frozen, inbox_wait_ms);
  const auto submitted = read_submission(inbox);
  if (const auto report = taken_over(database, submitted.nonce)) return {true, *report};
  Transaction transaction(database);
  check_epoch();
  auto report = Takeover(inbox, database, submitted, now).go_on(std::max<std::int64_t>(rows, 1));
  fail_point("inbox.piece");
  transaction.commit();
  if (report) {
    fail_point("inbox.in_force");
    return {true, *std::move(report)};
  }
  fail_point("inbox.stored");
  return {.done = false, .report = {.name = submitted.name}};
}

}  // namespace shardsweep::sqlite
