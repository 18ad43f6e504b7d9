// SPDX-License-Identifier: Apache-2.0
// What a report is made of, in one transaction that only reads: all tables are of one moment,
// and the writer waits for nobody.
#include "store/ledger.hpp"
#include "store/reader.hpp"
#include "store/reading.hpp"
#include "store/row_sql.hpp"

#include <shardsweep/event.hpp>
#include <shardsweep/fail_point.hpp>

#include <fmt/format.h>

namespace shardsweep::sqlite {
namespace {

/// Deferred: it takes the database as it is at the first SELECT.
class Moment {
 public:
  explicit Moment(Database& database) : database_(database) { database_.execute("BEGIN"); }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  ~Moment() {
    try {
      database_.execute("COMMIT");
    } catch (const SqliteError&) {
      // A transaction that has only read ends with its connection.
      return;
    }
  }

 private:
  Database& database_;
};

/// {0}: condition, {1}: kind of event, {2}: columns of checks, {3}: rows, {4}: shape and axes,
/// {5}: imported tables.
struct FactsSql {
  const char* trials =
      "SELECT r.trial_id, r.sweep, r.trial, r.layout, r.model, r.seq_len, r.nodes, r.gpus, "
      "r.dtype, r.cluster, iif(r.sweep_id IN ({5}), '', (SELECT group_concat(j.key || '=' || "
      "j.value, ' ') FROM json_each(r.vars) AS j)) AS vars, r.global_batch, r.state, r.outcome, "
      "r.mark, r.cause, r.tokens_per_s_per_gpu, r.train_step_ms, r.train_step_ms_spread, r.mfu, "
      "r.peak_memory_bytes, r.predicted_tokens_per_s_per_gpu, r.predicted_memory_bytes, "
      "r.predicted_attempt_s, r.runner, r.runner_version, r.code_hash, nullif(r.started_at, 0) AS "
      "started_at, r.ended_at, ifnull(r.remeasured, 0) AS remeasured, r.n_params, r.power_w, "
      "(SELECT sum(max(a.ended_at - a.started_at, 0)) * 1e-6 FROM attempts AS a WHERE a.trial = "
      "r.trial_id AND a.started_at > 0) * r.gpus AS gpu_seconds, (SELECT group_concat(j.value, ' "
      "') FROM json_each(r.hosts) AS j) AS hosts, (SELECT group_concat(j.key || '=' || j.value, "
      "';') FROM json_each(r.software) AS j) AS software, (SELECT group_concat(j.key || '=' || "
      "j.value, ';') FROM json_each(m.detail, '$.phase_ms') AS j) AS phases, (SELECT "
      "group_concat(j.key || '=' || j.value, ';') FROM json_each(m.detail, '$.wait_ms') AS j) AS "
      "waits, (SELECT group_concat(j.key || '=' || j.value, ';') FROM json_each(m.detail, "
      "'$.peak_memory_by_class') AS j) AS memory_classes, (SELECT a.source || iif(a.also = '', '', "
      "'; also: ' || a.also) || iif(a.node = '', '', '; node ' || a.node) FROM attempts AS a WHERE "
      "a.trial = r.trial_id ORDER BY a.number DESC LIMIT 1) AS evidence, (SELECT a.dir FROM "
      "attempts AS a WHERE a.trial = r.trial_id ORDER BY a.number DESC LIMIT 1) AS files, {4} FROM "
      "(SELECT * FROM {3} WHERE {0}) AS r LEFT JOIN (SELECT attempt, iif(json_valid(detail), "
      "detail, '{{}}') AS detail FROM measurements) AS m ON m.attempt = r.attempt_id ORDER BY "
      "r.sweep_id, r.position, r.trial_id";
  const char* sweeps =
      "SELECT name AS sweep, backend, cluster, runner, runner_version, revision, submitted_at, "
      "resolved, job_template FROM sweeps AS s WHERE {0} ORDER BY id";
  const char* attempts =
      "SELECT a.allocation, ifnull(a.outcome, a.state) AS outcome, a.started_at, a.ended_at FROM "
      "attempts AS a JOIN trials AS t ON t.id = a.trial WHERE a.started_at > 0 AND {0} ORDER BY "
      "a.allocation, a.started_at";
  const char* allocations =
      "SELECT l.id, l.job_name, l.nodes, l.slots_per_node, l.claimed_at, l.ended_at, l.last_beat, "
      "s.backend = 'imported' AS imported FROM allocations AS l JOIN sweeps AS s ON s.id = l.sweep "
      "WHERE l.claimed_at > 0 AND {0} ORDER BY l.claimed_at, l.id";
  const char* controls =
      "SELECT l.job_name AS allocation, c.nodes, c.time, c.at, nullif(c.tokens_per_s, 0) AS "
      "tokens_per_s_per_gpu, nullif(round(c.ratio, 3), 0) AS ratio, nullif(round(c.network_ratio, "
      "3), 0) AS network_ratio, nullif(c.cause, '') AS cause FROM controls AS c JOIN allocations "
      "AS l ON l.id = c.allocation JOIN sweeps AS s ON s.id = c.sweep WHERE c.time <> 'check' AND "
      "{0} ORDER BY c.at";
  const char* checks =
      "SELECT {2} FROM controls AS c JOIN allocations AS l ON l.id = c.allocation JOIN sweeps AS s "
      "ON s.id = c.sweep WHERE c.time = 'check' AND {0} ORDER BY c.allocation, c.node";
  const char* side_runs =
      "SELECT r.tool, r.of_trial AS trial, r.layout, ifnull(r.outcome, r.state) AS outcome, "
      "r.cause, r.dir FROM side_runs AS r WHERE r.sweep_id IN (SELECT s.id FROM sweeps AS s WHERE "
      "{0}) ORDER BY r.trial_id";
  const char* nodes =
      "SELECT node, state, attempts, completed, node_failure, comm_error, hung, crashed, slow, "
      "evidence, nullif(reason, '') AS reason, nullif(last_evidence, '') AS last_evidence FROM "
      "node_ledger WHERE state <> 'trusted' OR evidence > 0 OR slow IS NOT NULL ORDER BY node";
  const char* bounds =
      "SELECT s.name AS sweep, e.detail AS bound, count(*) AS spared FROM events AS e JOIN sweeps "
      "AS s ON s.id = e.sweep WHERE e.kind = '{1}' AND {0} GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 50";
};
constexpr FactsSql facts_sql;

/// Tables of what a selection means, in one transaction.
class Facts {
 public:
  Facts(Database& database, const Selection& selection)
      : moment_(database), database_(database), source_(source_of(database, selection)) {}

  /// `condition` stands in place of {0}.
  Statement statement(
      const char* text, const std::string& condition, const std::string& axes = {}) {
    return Statement(database_,
        fmt::format(fmt::runtime(text), condition, word_of(EventKind::spared), check_columns,
            source_.rows, axes, imported_tables_sql));
  }
  Table table(const char* text, const std::string& condition) {
    Statement select = statement(text, condition);
    auto use = select.use(source_.chosen.sweeps, source_.chosen.trials);
    return fetch(select, use);
  }
  std::vector<ReportedTrial> trials() {
    std::vector<std::string> names;
    names.reserve(shape_fields.size() + axes_of_trials().size());
    for (const auto& field : shape_fields)
      names.emplace_back(field.name);
    for (const auto* axis : axes_of_trials())
      names.emplace_back(axis->name);
    Statement select = statement(facts_sql.trials, source_.where, list(names, "r."));
    auto row = select.use(source_.chosen.sweeps, source_.chosen.trials);
    std::vector<ReportedTrial> all;
    while (row.next()) {
      auto& trial = all.emplace_back(read_row<ReportedTrial>(row));
      int column = described<ReportedTrial>.size;
      for (const auto& field : shape_fields)
        row.read(column++, trial.shape.*field.member);
      for (std::size_t i = 0; i < axes_of_trials().size(); ++i)
        trial.axes.push_back(row.value(column++));
    }
    return all;
  }
  Table of_sweeps(const char* text) {
    // Sweeps of trials that were named count as named.
    return table(text,
        source_.chosen.all
            ? is_chosen()
            : fmt::format("s.id IN (SELECT sweep FROM trials AS t WHERE {})", is_chosen()));
  }
  void read_sources(ReportSources& into) {
    into.sweeps = typed_rows<ReportedSweep>(of_sweeps(facts_sql.sweeps));
    into.allocations = typed_rows<ReportedAllocation>(of_sweeps(facts_sql.allocations));
  }
  [[nodiscard]] std::string is_chosen() const {
    return chosen_condition(source_.chosen, "t.sweep", "t.id");
  }

 private:
  Moment moment_;
  Database& database_;
  Source source_;
};

}  // namespace

std::vector<ReportedTrial> trials(Database& database, const Selection& selection) {
  return Facts(database, selection).trials();
}

ReportFacts facts(Database& database, const Selection& selection) {
  Facts asked(database, selection);
  ReportFacts facts;
  facts.trials = asked.trials();
  fail_point("store.reading");
  asked.read_sources(facts);
  facts.attempts = typed_rows<ReportedAttempt>(asked.table(facts_sql.attempts, asked.is_chosen()));
  facts.controls = asked.of_sweeps(facts_sql.controls);
  facts.checks = asked.of_sweeps(facts_sql.checks);
  facts.side_runs = asked.of_sweeps(facts_sql.side_runs);
  facts.bounds = asked.of_sweeps(facts_sql.bounds);
  Statement nodes(database, facts_sql.nodes);
  auto use = nodes.use();
  facts.nodes = fetch(nodes, use);
  return facts;
}

ReportSources sources(Database& database, const Selection& selection) {
  ReportSources found;
  Facts(database, selection).read_sources(found);
  return found;
}

}  // namespace shardsweep::sqlite
