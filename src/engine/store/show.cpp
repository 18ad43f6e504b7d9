// SPDX-License-Identifier: Apache-2.0
// `show`: all that is known about one thing.
#include "store/ledger.hpp"
#include "store/reader.hpp"
#include "store/reading.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace shardsweep::sqlite {
namespace {

using Json = nlohmann::json;
using Section = Reader::Section;

constexpr std::size_t most_shown = 20;  // trials of one name: `results` is for more

struct ShowSql {
  const char* trial_name =
      "SELECT s.name || '/' || t.slug FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE "
      "t.id = ?";
  const char* sweep_name = "SELECT name FROM sweeps WHERE id = ?";
  const char* trial =
      "SELECT r.*, (SELECT iif(backend = 'imported', rtrim(source, char(10)), NULL) FROM sweeps "
      "WHERE id = r.sweep_id) AS origin FROM all_results AS r WHERE trial_id = ?";
  const char* attempts =
      "SELECT a.number AS attempt, a.state, a.outcome, a.counted, a.revoked, a.cause, a.also, "
      "a.source, a.node AS cause_node, a.exit_code, a.signal, a.leaked, nullif(a.started_at, 0) AS "
      "started_at, nullif(a.ended_at, 0) AS ended_at, iif(a.started_at > 0 AND a.ended_at > "
      "a.started_at, (a.ended_at - a.started_at) * 1e-6, NULL) AS duration_s, (SELECT "
      "group_concat(x.node, ' ') FROM allocation_nodes AS x WHERE x.allocation = l.id) AS nodes, "
      "(SELECT nullif(round(c.ratio, 3), 0) FROM controls AS c WHERE c.allocation = l.id AND "
      "c.time = 'start') AS control_start, (SELECT nullif(round(c.ratio, 3), 0) FROM controls AS c "
      "WHERE c.allocation = l.id AND c.time = 'end') AS control_end, (SELECT "
      "nullif(round(c.network_ratio, 3), 0) FROM controls AS c WHERE c.allocation = l.id AND "
      "c.time = 'start') AS network_start, (SELECT nullif(round(c.network_ratio, 3), 0) FROM "
      "controls AS c WHERE c.allocation = l.id AND c.time = 'end') AS network_end, (SELECT b.slug "
      "FROM trials AS b WHERE b.id = a.leader) AS leader, nullif(a.leader_step_ms, 0) AS "
      "leader_step_ms, nullif(a.give_up_above_ms, 0) AS give_up_above_ms, l.backend, l.job_id, "
      "l.job_name, l.host, a.dir FROM attempts AS a JOIN allocations AS l ON l.id = a.allocation "
      "WHERE a.trial = ? ORDER BY a.number";
  const char* measurements =
      "SELECT a.number AS attempt, a.counted, m.*, (SELECT group_concat(j.key || ' ' || j.value, "
      "', ') FROM json_each(iif(json_valid(m.detail), m.detail, '{}')) AS j WHERE j.type IN "
      "('integer', 'real', 'text', 'true', 'false') AND j.key NOT IN ('type', 'run_id', 't') AND "
      "j.key NOT IN (SELECT name FROM pragma_table_info('measurements'))) AS own_metrics FROM "
      "measurements AS m JOIN attempts AS a ON a.id = m.attempt WHERE m.trial = ? ORDER BY "
      "a.number";
  const char* environments =
      "SELECT a.number AS attempt, j.key AS variable, j.value AS value FROM attempts AS a, "
      "json_each(iif(json_valid(a.environment), a.environment, '{}')) AS j WHERE a.trial = ? ORDER "
      "BY a.number, j.key";
  const char* train_steps =
      "SELECT a.number AS attempt, x.step, x.step_ms, x.loss FROM train_steps AS x JOIN attempts "
      "AS a ON a.id = x.attempt WHERE a.trial = ? ORDER BY a.number, x.step";
  const char* events =
      "SELECT e.id, e.at, a.number AS attempt, iif(e.kind = 'spared', 'skipped', e.kind) AS kind, "
      "e.detail FROM events AS e LEFT JOIN attempts AS a ON a.id = e.attempt WHERE e.trial = ? "
      "ORDER BY e.id";
  const char* side_runs =
      "SELECT tool, of_trial, layout, trial, state, outcome, cause, dir FROM side_runs WHERE "
      "sweep_id = ?1 OR final_of = ?2 ORDER BY trial_id";
  const char* sweep =
      "SELECT name, iif(backend = 'imported', backend, iif(state = 'active' AND NOT EXISTS (SELECT "
      "1 FROM trials AS t WHERE t.sweep = s.id AND t.hidden = 0 AND t.state <> 'ended'), 'done', "
      "state)) AS state, backend, cluster, runner, runner_version, submitted_at, revision, points, "
      "duplicates, resolved_hash FROM sweeps AS s WHERE id = ?";
  const char* sweep_counts =
      "SELECT state, outcome, count(*) AS trials FROM trials WHERE sweep = ? AND hidden = 0 AND "
      "side = '' GROUP BY state, outcome ORDER BY 3 DESC";
  const char* sweep_left_out =
      "SELECT j.key AS constraint_name, j.value AS points, (SELECT why FROM left_out AS l WHERE "
      "l.sweep = s.id AND l.constraint_name = j.key LIMIT 1) AS example FROM sweeps AS s, "
      "json_each(s.left_out) AS j WHERE s.id = ? ORDER BY j.value DESC";
  const char* sweep_events =
      "SELECT e.id, e.at, iif(e.kind = 'spared', 'skipped', e.kind) AS kind, t.slug AS trial, "
      "a.number AS attempt, e.detail FROM (SELECT * FROM events WHERE sweep = ? ORDER BY id DESC "
      "LIMIT 20) AS e LEFT JOIN trials AS t ON t.id = e.trial LEFT JOIN attempts AS a ON a.id = "
      "e.attempt ORDER BY e.id";
  const char* controls =
      "SELECT l.job_name AS allocation, c.nodes, c.time, nullif(c.tokens_per_s, 0) AS "
      "tokens_per_s, nullif(round(c.ratio, 3), 0) AS ratio, nullif(round(c.busbw_bytes_per_s * "
      "1e-9, 3), 0) AS busbw_gb_per_s, nullif(round(c.network_ratio, 3), 0) AS network_ratio, "
      "c.cause, c.at FROM controls AS c JOIN allocations AS l ON l.id = c.allocation WHERE c.sweep "
      "= ? AND c.time <> 'check' ORDER BY c.at DESC LIMIT 20";
  const char* checks =
      "SELECT {} FROM controls AS c JOIN allocations AS l ON l.id = c.allocation WHERE c.sweep = ? "
      "AND c.time = 'check' ORDER BY c.at DESC, c.node LIMIT 20";
  const char* allocations =
      "SELECT l.* FROM allocations AS l WHERE l.job_id = ? AND l.job_id <> '' ORDER BY l.id";
};
constexpr ShowSql show_sql;

template <class... Values>
Table rows(Database& database, const char* text, const Values&... values) {
  Statement select(database, text);
  auto use = select.use(values...);
  return fetch(select, use);
}

/// One row as two columns; what is NULL or empty is left out.
Table turned(const Table& table) {
  Table result{{"name", "value"}, {}};
  if (table.rows.empty()) return result;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto& value = table.rows.front()[i];
    const auto* text = std::get_if<std::string>(&value);
    if (std::holds_alternative<std::monostate>(value) || (text != nullptr && text->empty()))
      continue;
    result.rows.push_back({table.columns[i], value});
  }
  return result;
}

/// Sections about one sweep or trial, under its name.
class Sheet {
 public:
  Sheet(std::vector<Section>& sections, std::string thing)
      : sections_(sections), thing_(std::move(thing)) {}
  void add(std::string title, Table table) {
    if (!table.rows.empty()) sections_.push_back({std::move(title), std::move(table), thing_});
  }

 private:
  std::vector<Section>& sections_;
  std::string thing_;
};

std::string name_of(Database& database, const char* text, std::int64_t id) {
  Statement select(database, text);
  auto row = select.use(id);
  return row.next() ? row.text(0) : std::string();
}

void show_trial(Database& database, std::int64_t trial, std::vector<Section>& sections) {
  Sheet sheet(sections, name_of(database, show_sql.trial_name, trial));
  sheet.add("trial", turned(rows(database, show_sql.trial, trial)));
  sheet.add("attempts", rows(database, show_sql.attempts, trial));
  sheet.add("measurements", rows(database, show_sql.measurements, trial));
  sheet.add("environment of the first rank", rows(database, show_sql.environments, trial));
  sheet.add("side runs", rows(database, show_sql.side_runs, std::int64_t{0}, trial));
  sheet.add("train steps", rows(database, show_sql.train_steps, trial));
  sheet.add("events", rows(database, show_sql.events, trial));
}

void show_sweep(Database& database, std::int64_t sweep, std::vector<Section>& sections) {
  Sheet sheet(sections, name_of(database, show_sql.sweep_name, sweep));
  sheet.add("sweep", turned(rows(database, show_sql.sweep, sweep)));
  sheet.add("trials", rows(database, show_sql.sweep_counts, sweep));
  sheet.add("side runs", rows(database, show_sql.side_runs, sweep, std::int64_t{0}));
  sheet.add("left out", rows(database, show_sql.sweep_left_out, sweep));
  sheet.add("last controls", rows(database, show_sql.controls, sweep));
  sheet.add("last checks of nodes",
      rows(database, fmt::format(fmt::runtime(show_sql.checks), check_columns).c_str(), sweep));
  sheet.add("last events", rows(database, show_sql.sweep_events, sweep));
}

}  // namespace

std::vector<Section> show(Database& database, const std::string& name) {
  const auto chosen = resolve_names(database, {name});
  std::vector<Section> sections;
  for (const auto& sweep : Json::parse(chosen.sweeps))
    show_sweep(database, sweep.get<std::int64_t>(), sections);
  const auto trials = Json::parse(chosen.trials);
  if (trials.empty()) return sections;
  Sheet sheet(sections, name);
  sheet.add("allocation", turned(rows(database, show_sql.allocations, name)));
  if (trials.size() <= most_shown) {
    for (const auto& trial : trials)
      show_trial(database, trial.get<std::int64_t>(), sections);
    return sections;
  }
  ResultsRequest request;
  request.selection.names = {name};
  request.selection.hidden = true;
  sheet.add("trials", results(database, request));
  return sections;
}

}  // namespace shardsweep::sqlite
