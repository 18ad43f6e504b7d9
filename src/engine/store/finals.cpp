// SPDX-License-Identifier: Apache-2.0
#include "store/finals.hpp"

#include "answer/answer.hpp"
#include "store/row_sql.hpp"
#include "store/rows.hpp"

#include <shardsweep/event.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

namespace shardsweep::sqlite {

namespace {

/// Name of a run, behind that of its layout. It is f1 in the first round, again3.1 in the first
/// round of the third remeasurement, else the run's tool.
constexpr const char* run_name =
    "iif(?8 > 0, 'again' || ?8 || '.' || ?2 || iif(?10, '-before', ''), iif(?7 = '', 'f' || ?2, "
    "?7))";

std::string copy_sql() {
  std::vector<std::string> values;
  for (const auto& column : submitted_columns()) {
    if (column == "slug") {
      values.push_back(fmt::format("b.slug || '-' || {}", run_name));
    } else if (column == "identity") {
      values.push_back(fmt::format("b.identity || '/' || {}", run_name));
    } else if (column == "position") {
      values.emplace_back("(SELECT max(position) + 1 FROM trials WHERE sweep = b.sweep)");
    } else if (column == "repeat") {
      values.emplace_back("?2 + 1");
    } else if (column == "predicted_attempt_s") {
      // The time of the layout's first run tells more than a prediction.
      values.emplace_back(
          "?11 * ifnull((SELECT nullif((a.ended_at - a.started_at) * 1e-6, 0.0) FROM attempts AS a "
          "WHERE a.id = b.counted_attempt AND a.started_at > 0), b.predicted_attempt_s)");
    } else {
      values.push_back("b." + column);
    }
  }
  return fmt::format(
      "INSERT INTO trials (sweep, runner, runner_version, final_of, final_round, final_resolve, "
      "final_set, final_sets, final_avoid, side, again, software, {}) SELECT b.sweep, b.runner, "
      "b.runner_version, b.id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, {} FROM trials AS b WHERE b.id = ?1 "
      "ON CONFLICT DO NOTHING",
      list(submitted_columns()), list(values));
}

}  // namespace

std::vector<FinalsRow> read_finals(Database& database, SweepId sweep, std::int32_t nodes) {
  Statement select(database,
      fmt::format(
          "SELECT t.id, ifnull(t.final_of, 0), t.side, t.again, t.software, t.final_round, "
          "t.final_set, {}, t.layout || ' ' || t.dtype, ifnull(t.outcome = 'oom', 0), t.state <> "
          "'ended', ifnull(t.outcome = 'cancelled', 0), iif(t.outcome = 'skipped', t.cause, ''), "
          "ifnull(a.id, 0), ifnull(a.allocation, 0), iif(t.counted_mark IS NULL, "
          "ifnull(t.counted_speed, 0.0), 0.0), ifnull(m.sm_clock_mhz, 0.0), ifnull(m.throttled, "
          "''), ifnull(m.resolution, 0.0), ifnull(m.train_step_ms_spread, 0.0), ifnull(m.steps, "
          "0), ifnull(a.others_cpu, 0.0), ifnull(m.hosts, ''), ifnull(a.ended_at, 0) FROM trials "
          "AS t LEFT JOIN attempts AS a ON a.id = t.counted_attempt LEFT JOIN measurements AS m ON "
          "m.attempt = a.id WHERE t.sweep = ? AND max(t.nodes, 1) = ? AND t.hidden = 0 AND "
          "(t.final_of IS NOT NULL OR t.counted_speed IS NOT NULL OR t.state <> 'ended' OR "
          "t.outcome = 'oom') ORDER BY t.position, t.id",
          cell_columns("t.")));
  auto row = select.use(sweep, nodes);
  std::vector<FinalsRow> rows;
  while (row.next()) {
    FinalsRow& one = rows.emplace_back();
    read_fields(row, 0, one.id, one.final_of, one.side, one.again, one.software, one.final_round,
        one.final_set);
    constexpr int of_cell = 7;
    one.cell = read_cell(row, of_cell);
    read_fields(row, of_cell + cell_column_count, one.layout, one.out_of_memory, one.open,
        one.cancelled, one.skipped, one.attempt, one.allocation, one.tokens_per_s_per_gpu,
        one.sm_clock_mhz, one.throttled, one.resolution, one.step_spread, one.steps, one.others_cpu,
        one.hosts, one.ended_at);
  }
  return rows;
}

std::vector<std::string> nodes_of_allocations(
    Database& database, const std::vector<AllocationId>& allocations) {
  Statement select(database, "SELECT node FROM allocation_nodes WHERE allocation = ?");
  std::set<std::string> nodes;
  for (const AllocationId allocation : allocations) {
    auto row = select.use(allocation);
    while (row.next())
      nodes.insert(row.text(0));
  }
  return {nodes.begin(), nodes.end()};
}

std::vector<std::int32_t> node_counts_of(Database& database, SweepId sweep) {
  Statement select(
      database, "SELECT DISTINCT max(nodes, 1) FROM trials WHERE sweep = ? AND hidden = 0");
  auto row = select.use(sweep);
  std::vector<std::int32_t> counts;
  while (row.next())
    row.read(0, counts.emplace_back());
  return counts;
}

std::vector<TrialRow> put_finals(
    Database& database, SweepId sweep, const std::vector<NewFinal>& finals) {
  Statement copy(database, copy_sql());
  Statement select(database,
      fmt::format("SELECT {} FROM trials AS t WHERE t.sweep = ? AND t.final_of = ? AND "
                  "t.final_round = ? AND t.side = ? AND t.again = ? AND t.software = ?",
          trial_row_columns()));
  std::vector<TrialRow> rows;
  for (const NewFinal& one : finals) {
    copy.run(one.of, one.round, one.resolve, one.set, one.sets, one.avoid, word_of(one.side),
        one.again, one.software, one.before, one.longer);
    auto use = select.use(sweep, one.of, one.round, word_of(one.side), one.again, one.software);
    if (use.next()) rows.push_back(read_row<TrialRow>(use));
  }
  return rows;
}

FinalStandings::FinalStandings(Database& database) : database_(database) {
  any_ = database.integer(
             "SELECT EXISTS (SELECT 1 FROM trials WHERE final_of IS NOT NULL AND again = 0)") != 0;
}

const FinalStanding* FinalStandings::of(TrialId trial) {
  if (!any_) return nullptr;
  Statement select(database_,
      fmt::format("SELECT t.sweep, {} FROM trials AS t WHERE t.id = ?", cell_columns("t.")));
  auto row = select.use(trial);
  if (!row.next()) return nullptr;
  const SweepId sweep = row.integer(0);
  const Place place{sweep, read_cell(row, 1)};
  const auto nodes = static_cast<std::int32_t>(std::max<std::int64_t>(place.second.nodes, 1));
  row.run();
  if (known_.try_emplace({sweep, nodes}, true).second) read(sweep, nodes);
  const auto found = standings_.find(place);
  return found == standings_.end() ? nullptr : &found->second;
}

void FinalStandings::read(SweepId sweep, std::int32_t nodes) {
  const auto rows = read_finals(database_, sweep, nodes);
  FinalsSettings settings;
  Statement select(database_,
      "SELECT final_resolve, final_sets, EXISTS (SELECT 1 FROM sweeps AS s WHERE s.id = t.sweep "
      "AND (s.backend = 'local' OR (s.backend = 'imported' AND s.cluster = 'this-machine'))) FROM "
      "trials AS t WHERE sweep = ? AND final_of IS NOT NULL AND side = '' AND again = 0 ORDER BY "
      "id DESC LIMIT 1");
  auto row = select.use(sweep);
  if (!row.next()) return;
  settings.resolve = row.real(0);
  const bool one_machine = row.integer(1) > 1 && row.integer(2) != 0;
  if (!one_machine) row.read(1, settings.node_sets);
  row.run();
  for (const FinalCell& cell : final_cells(rows, 0)) {
    auto held = held_finals(cell, rows, settings);
    if (!held) continue;
    if (one_machine) held->finals.verdicts.front().not_confirmed = "there is only this machine.";
    FinalStanding standing{*std::move(held), {}};
    for (const auto& [finalist, runs] : standing.held.runs)
      standing.measured.insert(runs.begin(), runs.end());
    standings_.emplace(Place{sweep, cell.cell}, std::move(standing));
  }
}

// Rows from which a search learns: a sweep's trials, and knowledge that was imported.

namespace {

const std::string& search_sql() {
  static const std::string sql = fmt::format(R"sql(
      SELECT {}, t.id, iif(t.outcome = 'oom' AND t.fragmented, 'crashed', t.outcome),
        t.attempts > 0,
        EXISTS (SELECT 1 FROM events AS e WHERE e.trial = t.id AND e.kind = 'rerun'),
        ifnull(t.outcome = 'skipped' AND (SELECT e.kind FROM events AS e WHERE e.trial = t.id
          AND e.kind IN ('skipped', 'spared') ORDER BY e.id DESC LIMIT 1) = 'spared', 0),
        ifnull(m.tokens_per_s_per_gpu, 0.0), ifnull(m.peak_memory_bytes, 0),
        (SELECT ifnull(sum((b.ended_at - b.started_at) * 1e-6 * t.gpus), 0.0) FROM attempts AS b
          WHERE b.trial = t.id AND b.started_at > 0 AND b.ended_at > b.started_at),
        (SELECT ifnull(max(b.ended_at), 0) FROM attempts AS b WHERE b.trial = t.id),
        (SELECT ifnull(max((b.ended_at - b.started_at) * 1e-6), 0.0) FROM attempts AS b
          WHERE b.trial = t.id AND iif(m.attempt IS NULL, b.number = t.attempts, b.id = m.attempt)
            AND b.started_at > 0 AND b.ended_at > b.started_at),
        (SELECT ifnull(max(e.id), 0) FROM events AS e LEFT JOIN attempts AS b ON b.id = e.attempt
          WHERE e.trial = t.id AND iif(e.attempt IS NULL,
            e.kind IN (t.outcome, '{}', '{}'), b.number = t.attempts AND e.kind = b.outcome)),
        ifnull(r.id, 0), ifnull(r.started_at, 0), ifnull(m.cut_short, 0),
        ifnull(m.train_step_ms, 0.0), ifnull(m.resolution, 0.0), t.runner_version
      FROM trials AS t
      LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted = 1
      LEFT JOIN measurements AS m ON m.attempt = a.id AND m.mark IS NULL
      LEFT JOIN attempts AS r ON r.trial = t.id AND r.number = t.attempts AND
        r.state <> 'ended' AND r.started_at > 0
      WHERE t.sweep = ? AND t.hidden = 0 AND t.final_of IS NULL ORDER BY t.position, t.id)sql",
      list(point_columns(), "t."), word_of(EventKind::ruled_out), word_of(EventKind::cancel));
  return sql;
}

}  // namespace

std::vector<SearchRow> search_rows(Database& database, SweepId id, const SweepSpec& sweep) {
  Statement select(database, search_sql());
  auto row = select.use(id);
  std::vector<SearchRow> rows;
  while (row.next()) {
    auto& one = rows.emplace_back();
    one.point = read_point(row, sweep);
    read_fields(row, static_cast<int>(point_columns().size()), one.id, one.outcome, one.attempted,
        one.rerun, one.spared, one.tokens_per_s_per_gpu, one.peak_memory_bytes, one.gpu_seconds,
        one.ended_at, one.seconds, one.end_event, one.running, one.running_since, one.cut_short,
        one.train_step_ms, one.resolution, one.runner_version);
  }
  return rows;
}

const char* const unused_knowledge_sql =
    "DELETE FROM knowledge WHERE forgotten_at > 0 AND NOT EXISTS (SELECT 1 FROM sweeps AS s WHERE "
    "s.submitted_at >= imported_at AND s.submitted_at < forgotten_at)";

std::vector<KnowledgeText> knowledge_at(Database& database, Timestamp submitted) {
  Statement select(database,
      "SELECT name, text FROM knowledge WHERE imported_at <= ?1 AND (forgotten_at = 0 OR "
      "forgotten_at > ?1) ORDER BY id");
  auto row = select.use(submitted);
  std::vector<KnowledgeText> all;
  while (row.next())
    all.push_back({row.text(0), row.text(1)});
  return all;
}

}  // namespace shardsweep::sqlite
