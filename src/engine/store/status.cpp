// SPDX-License-Identifier: Apache-2.0
// How far sweeps are.
#include "store/reader.hpp"
#include "store/rows.hpp"

#include <shardsweep/event.hpp>

#include <map>

namespace shardsweep::sqlite {
namespace {

// Statements of a sweep's status. A sweep has not ended before its side runs have. How these end is
// no verdict on anything.
struct StatusSql {
  std::string sweeps = R"sql(
    SELECT id, name, iif(backend = 'imported', backend, state), submitted_at,
      (SELECT ifnull(sum(value), 0) FROM json_each(left_out)), backend = 'outside', iif(state = 'active', remeasure_at, 0)
    FROM sweeps WHERE ?1 IS NOT NULL AND ?2 IS NOT NULL ORDER BY submitted_at, id)sql";
  std::string chosen_sweeps = R"sql(
    SELECT id, name, iif(backend = 'imported', backend, state), submitted_at,
      (SELECT ifnull(sum(value), 0) FROM json_each(left_out)), backend = 'outside', iif(state = 'active', remeasure_at, 0)
    FROM sweeps WHERE id IN (SELECT value FROM json_each(?1)) OR id IN
      (SELECT sweep FROM trials WHERE id IN (SELECT value FROM json_each(?2)))
    ORDER BY submitted_at, id)sql";
  std::string counts = R"sql(
    SELECT state, outcome, count(*), sum(counted_mark IS NOT NULL) FROM trials
    WHERE sweep = ? AND hidden = 0 AND (state <> 'ended' OR id NOT IN
      (SELECT id FROM trials WHERE side <> '')) GROUP BY state, outcome)sql";
  std::string doubt = R"sql(
    SELECT also FROM attempts WHERE id = (SELECT counted_attempt FROM trials
      WHERE sweep = ? AND hidden = 0 AND counted_mark IS NOT NULL ORDER BY id LIMIT 1))sql";
  // A trial that was skipped was so for the sake of another one.
  std::string cause = R"sql(
    SELECT cause FROM trials WHERE sweep = ? AND hidden = 0 AND state = 'ended' AND side = '' AND cause <> ''
    GROUP BY cause ORDER BY min(outcome = 'skipped'), count(*) DESC, min(id) LIMIT 1)sql";
  // Two hundred trials tell how far predictions are off.
  std::string ratio = R"sql(
    SELECT count(*), sum(seconds), sum(predicted), sum(iif(predicted > 0, seconds, 0)) FROM (
      SELECT (a.ended_at - a.started_at) * 1e-6 AS seconds, t.predicted_attempt_s AS predicted
      FROM (SELECT id, predicted_attempt_s FROM trials
            WHERE sweep = ? AND hidden = 0 AND state = 'ended' AND outcome = 'completed'
            ORDER BY id DESC LIMIT 200) AS t
      JOIN attempts AS a ON a.trial = t.id AND a.counted = 1
      WHERE a.started_at > 0 AND a.ended_at > a.started_at))sql";
  std::string remaining = R"sql(
    SELECT ifnull(sum(predicted_attempt_s), 0), ifnull(sum(predicted_attempt_s <= 0), 0)
    FROM trials WHERE sweep = ? AND hidden = 0 AND state IN ('planned', 'queued', 'running'))sql";
  std::string running = R"sql(
    SELECT t.slug || ifnull((SELECT ' (' || l.host || ')' FROM attempts AS a
        JOIN allocations AS l ON l.id = a.allocation WHERE a.trial = t.id
        AND a.state = 'running' AND l.backend = 'outside'), '')
    FROM trials AS t WHERE t.sweep = ? AND t.hidden IN (0, 1) AND t.state = 'running'
    LIMIT 1)sql";
  std::string removed_running = R"sql(
    SELECT count(*) FROM trials WHERE sweep = ? AND hidden = 1 AND state = 'running')sql";
  // The largest one waits longest; a paused sweep's reason is its last event of that kind.
  std::string waiting = R"sql(
    SELECT job_name || ': ' || detail FROM allocations WHERE sweep = ?1 AND state <> 'ended'
      AND job_state = 'pending' AND detail <> '' AND claimed_at = 0
    UNION ALL SELECT held FROM sweeps WHERE id = ?1 AND held <> '' AND (state = 'active' OR revision = 0)
    UNION ALL SELECT 'The last attempt was lost: ' || e.detail FROM events AS e
      JOIN sweeps AS s ON s.id = e.sweep WHERE s.state = 'active' AND e.kind = 'lost'
        AND e.id = (SELECT id FROM events WHERE sweep = ?1 AND attempt IS NOT NULL
          ORDER BY id DESC LIMIT 1)
        AND NOT EXISTS (SELECT 1 FROM trials WHERE sweep = ?1 AND state = 'running')
        AND EXISTS (SELECT 1 FROM trials WHERE sweep = ?1 AND hidden = 0
          AND state IN ('planned', 'queued'))
    UNION ALL SELECT e.detail FROM events AS e JOIN sweeps AS s ON s.id = e.sweep
      WHERE e.sweep = ?1 AND e.kind = 'paused' AND s.state = 'paused'
        AND e.id = (SELECT max(id) FROM events WHERE sweep = ?1 AND kind = 'paused')
    UNION ALL SELECT job_name || iif(claimed_at = 0, ': its nodes are there, its lead has not started yet',
        iif(control_since > 0, ': a control run is on its nodes',
          iif(draining, ': it gives its nodes back',
            iif(EXISTS (SELECT 1 FROM attempts WHERE allocation = allocations.id AND started_at > 0),
              ': its next trial has not started yet', ': no trial has started on its nodes yet'))))
      FROM allocations WHERE sweep = ?1 AND state <> 'ended' AND job_state = 'running'
        AND NOT EXISTS (SELECT 1 FROM trials WHERE sweep = ?1 AND state = 'running')
        AND EXISTS (SELECT 1 FROM trials WHERE sweep = ?1 AND hidden = 0
          AND state IN ('planned', 'queued'))
    LIMIT 1)sql";
  std::string last_controls = R"sql(
    SELECT count(*) FROM controls AS c JOIN allocations AS l ON l.id = c.allocation
    JOIN sweeps AS s ON s.id = c.sweep
    WHERE c.sweep = ? AND s.state = 'active' AND l.state <> 'ended' AND l.said_bye = 0
      AND c.time = 'start' AND c.cause = ''
      AND NOT EXISTS (SELECT 1 FROM controls AS e
        WHERE e.allocation = c.allocation AND e.time = 'end'))sql";
  // The event says why the whole cell is over, or which rule others' refusals have made; the
  // trial's cause what was expected of it.
  std::string spared = R"sql(
    SELECT e.detail, count(*) FROM trials AS t JOIN events AS e ON e.id =
      (SELECT max(id) FROM events WHERE trial = t.id AND kind IN (?2, ?3))
    WHERE t.sweep = ?1 AND t.hidden = 0 AND t.state = 'ended' AND t.outcome = 'skipped'
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3)sql";
  std::string remeasured_sweeps = R"sql(
    SELECT id, name FROM sweeps WHERE remeasured > 0 AND (?3 OR id IN
      (SELECT value FROM json_each(?1)) OR id IN (SELECT sweep FROM trials WHERE id IN
        (SELECT value FROM json_each(?2)))) ORDER BY submitted_at, id)sql";
  std::string remeasurements = R"sql(
    SELECT trial, kind, at, detail FROM events WHERE trial IN (SELECT final_of FROM trials
      WHERE sweep = ?1 AND again > 0) AND kind IN (?2, ?3, ?4) ORDER BY id)sql";
  // Verbs over a sweep that is done change nothing of its trials.
  std::string last_end =
      "SELECT at FROM events WHERE sweep = ? AND trial IS NOT NULL ORDER BY id DESC LIMIT 1";
  std::string last_event = "SELECT at FROM events WHERE sweep = ? ORDER BY id DESC LIMIT 1";
};

const StatusSql& status_sql() {
  static const StatusSql statements;
  return statements;
}

void count(Database& database, SweepStatus& status) {
  Statement select(database, status_sql().counts);
  auto row = select.use(status.id);
  while (row.next()) {
    const auto trials = row.integer(2);
    status.trials += trials;
    status.by_state[row.text(0)] += trials;
    if (const auto outcome = read_outcome(row, 1)) {
      status.by_outcome[row.text(1)] += trials;
      if (*outcome == Outcome::completed) status.marked += row.integer(3);
      if (!info(*outcome).final_verdict) status.undecided += trials;
    }
  }
}

void read_spared(Database& database, SweepStatus& status) {
  if (!status.by_outcome.contains(std::string(name(Outcome::skipped)))) return;
  Statement select(database, status_sql().spared);
  auto row = select.use(status.id, word_of(EventKind::spared), word_of(EventKind::ruled_out));
  while (row.next())
    status.spared.emplace_back(row.text(0), row.integer(1));
}

/// Estimates the time that is left by predictions, corrected as measured ones turned out. A trial
/// without a prediction takes as long as the others on average.
void estimate(Database& database, SweepStatus& status) {
  double mean = 0;
  {
    Statement select(database, status_sql().ratio);
    auto row = select.use(status.id);
    if (row.next() && row.integer(0) > 0) {
      status.corrected = true;
      mean = row.real(1) / static_cast<double>(row.integer(0));
      if (row.real(2) > 0) status.measured_over_predicted = row.real(3) / row.real(2);
    }
  }
  Statement select(database, status_sql().remaining);
  auto row = select.use(status.id);
  if (row.next()) {
    status.remaining_s =
        row.real(0) * status.measured_over_predicted + mean * static_cast<double>(row.integer(1));
  }
}

}  // namespace

/// Follows what remeasurements have said of each layout: the last word stands.
std::map<TrialId, Regression> regressions_of(
    Database& database, SweepId sweep, const std::string& name) {
  std::map<TrialId, Regression> standing;
  Statement select(database, status_sql().remeasurements);
  auto row = select.use(sweep, word_of(EventKind::remeasured), word_of(EventKind::regressed),
      word_of(EventKind::still_regressed));
  while (row.next()) {
    if (row.view(1) == word_of(EventKind::remeasured)) {
      standing.erase(row.integer(0));
      continue;
    }
    auto& one =
        standing.try_emplace(row.integer(0), Regression{name, row.integer(2)}).first->second;
    one.text = row.text(3);
  }
  return standing;
}

namespace {

void add_regressions(
    Database& database, SweepId sweep, const std::string& name, std::vector<Regression>& all) {
  for (auto& [trial, one] : regressions_of(database, sweep, name))
    all.push_back(std::move(one));
}

template <class Into>
void read_one(Database& database, const std::string& text, std::int64_t sweep, Into& into) {
  Statement select(database, text);
  auto row = select.use(sweep);
  if (row.next()) row.read(0, into);
}

}  // namespace

std::vector<SweepStatus> status(Database& database, const std::vector<std::string>& sweeps) {
  const auto chosen = resolve_names(database, sweeps);
  std::vector<SweepStatus> all;
  {
    Statement select(database, chosen.all ? status_sql().sweeps : status_sql().chosen_sweeps);
    auto row = select.use(chosen.sweeps, chosen.trials);
    while (row.next()) {
      auto& one = all.emplace_back();
      row.read(0, one.id);
      row.read(1, one.name);
      row.read(2, one.state);
      row.read(3, one.submitted_at);
      row.read(4, one.left_out);
      row.read(5, one.outside);
      row.read(6, one.remeasure_at);
    }
  }
  for (auto& one : all) {
    count(database, one);
    estimate(database, one);
    read_one(database, status_sql().running, one.id, one.running);
    read_one(database, status_sql().removed_running, one.id, one.removed_running);
    read_spared(database, one);
    read_one(database, status_sql().last_controls, one.id, one.last_controls);
    read_one(database, status_sql().waiting, one.id, one.waiting);
    read_one(database, status_sql().last_event, one.id, one.last_event_at);
    read_one(database, status_sql().last_end, one.id, one.last_end_at);
    if (one.marked > 0) read_one(database, status_sql().doubt, one.id, one.doubt);
    if (!one.by_outcome.contains(std::string(name(Outcome::completed))))
      read_one(database, status_sql().cause, one.id, one.cause);
    add_regressions(database, one.id, one.name, one.regressions);
  }
  return all;
}

std::vector<Regression> regressions(Database& database, const std::vector<std::string>& names) {
  const auto chosen = resolve_names(database, names);
  std::vector<Regression> all;
  Statement select(database, status_sql().remeasured_sweeps);
  auto row = select.use(chosen.sweeps, chosen.trials, chosen.all);
  while (row.next())
    add_regressions(database, row.integer(0), row.text(1), all);
  return all;
}

}  // namespace shardsweep::sqlite
