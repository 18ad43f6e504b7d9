// SPDX-License-Identifier: Apache-2.0
#include "store/commit.hpp"

#include "store/finals.hpp"
#include "store/row_sql.hpp"

#include <shardsweep/invariant.hpp>
#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <cmath>

namespace shardsweep::sqlite {
namespace {

std::string insert_measurement() {
  std::string columns;
  std::string values;
  for (const auto& metric : metric_table) {
    columns += fmt::format(", {}", metric.name);
    values += ", ?";
  }
  // A record that is read again after a crash changes nothing.
  return fmt::format(
      "INSERT INTO measurements (attempt, trial, mark, flops_model, runner_version, software, "
      "hosts, detail, cut_short, settings, throttled{}) VALUES (?, ?, nullif(?, ''), ?, ?, "
      "iif(json_valid(?6), ?6, '{{}}'), iif(json_valid(?7), ?7, '[]'), ?8, ?9, ?10, ?11{}) ON "
      "CONFLICT (attempt) DO NOTHING",
      columns, values);
}

}  // namespace

Committer::Statements::Statements(Database& database)
    : sweep(database, update_of<SweepRow>("sweeps")),
      trial(database, update_of<TrialRow>("trials")),
      uncount(database,
          "UPDATE attempts SET counted = 0 WHERE trial = ?1 AND counted = 1 AND id <> ?2 AND "
          "EXISTS (SELECT 1 FROM trials WHERE id = ?1 AND state <> 'ended')"),
      // The end of an attempt or an allocation is the end (moves.hpp).
      attempt(database,
          upsert_of<AttemptRow>("attempts") +
              " WHERE attempts.state <> 'ended' OR (excluded.state = 'ended' AND excluded.outcome "
              "IS attempts.outcome)"),
      allocation(database,
          upsert_of<AllocationRow>("allocations") +
              " WHERE allocations.state <> 'ended' OR excluded.state = 'ended'"),
      sweep_of(database, "SELECT sweep FROM trials WHERE id = ?"),
      measurement(database, insert_measurement()),
      train_step(database,
          "INSERT INTO train_steps (attempt, step, step_ms, loss) VALUES (?, ?, ?, ?) ON CONFLICT "
          "DO NOTHING"),
      event(database,
          "INSERT INTO events (at, sweep, trial, attempt, allocation, kind, detail) VALUES (?, "
          "nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, ?)"),
      node(database,
          "INSERT INTO nodes (node, host, first_seen, last_seen) VALUES (?1, ?2, ?3, ?3) ON "
          "CONFLICT (node, host) DO UPDATE SET last_seen = max(last_seen, ?3)"),
      clock(database, "UPDATE wall_clock SET boot_id = ?, ahead = ?"),
      served(database, "INSERT INTO served_requests (id, at, answer) VALUES (?, ?, ?)"),
      served_long_ago(database,
          "DELETE FROM served_requests WHERE n <= (SELECT max(n) FROM served_requests) - ?"),
      knowledge(database,
          "INSERT INTO knowledge (name, imported_at, text) SELECT ?1, ?2, ?3 WHERE NOT EXISTS "
          "(SELECT 1 FROM knowledge WHERE name = ?1 AND forgotten_at = 0)"),
      forgotten(
          database, "UPDATE knowledge SET forgotten_at = ?2 WHERE name = ?1 AND forgotten_at = 0"),
      unused_knowledge(database, unused_knowledge_sql) {}

Committer::Committer(Database& database) : database_(database), sql_(database), ledger_(database) {}

void Committer::apply(const Change& change) {
  std::visit([this](const auto& one) { put(one); }, change);
}

template <class Row>
void Committer::run(Statement& statement, const Row& row) {
  auto use = statement.use();
  bind_row(use, row);
  use.run();
}

void Committer::put(const SetSweep& change) {
  run(sql_.sweep, change.row);
  if (database_.changed() == 0) fail(FaultKind::corrupt, "no row for sweep {}", change.row.id);
}

void Committer::put(const SetTrial& change) {
  run(sql_.trial, change.row);
  if (database_.changed() == 0) fail(FaultKind::corrupt, "no row for trial {}", change.row.id);
}

void Committer::put(const PutAttempt& change) {
  // The older measurement of a trial that was run again is kept, and counted no more. A trial
  // that has ended gets no second one: the index refuses it.
  if (change.row.counted) sql_.uncount.run(change.row.trial, change.row.id);
  run(sql_.attempt, change.row);
  const bool is_stored = database_.changed() == 1;
  if (!is_stored)
    in_work_of(sweep_of(change.row.trial), [&] {
      INVARIANT(is_stored, "an attempt that has ended keeps its end", change.row.id,
          change.row.trial, change.row.state, change.row.outcome());
    });
}

SweepId Committer::sweep_of(TrialId trial) {
  auto row = sql_.sweep_of.use(trial);
  return row.next() ? row.integer(0) : 0;
}

void Committer::put(const PutAllocation& change) {
  const auto& row = change.row;
  run(sql_.allocation, row);
  const bool is_stored = database_.changed() == 1;
  in_work_of(row.sweep, [&] {
    INVARIANT(is_stored, "an allocation that is closed stays closed", row.id, row.state);
  });
  if (!row.probe_of.empty()) ledger_.probe(row.id, row.probe_of);
}

void Committer::put(const AddMeasurement& change) {
  {
    auto row = sql_.measurement.use(change.attempt, change.trial, word_of(change.mark),
        change.flops_model, change.runner_version, change.software, change.hosts, change.detail,
        change.cut_short, change.settings, change.throttled);
    for (const auto& metric : metric_table) {
      const auto found = change.metrics.find(metric.name);
      if (found == change.metrics.end() || !std::isfinite(found->second)) {
        row.bind(nullptr);
      } else if (metric.kind == MetricKind::integer) {
        row.bind(std::llround(found->second));
      } else {
        row.bind(found->second);
      }
    }
    row.run();
  }
  for (const auto& sample : change.samples) {
    std::optional<double> loss;
    if (std::isfinite(sample.loss)) loss = sample.loss;
    if (std::isfinite(sample.step_ms))
      sql_.train_step.run(change.attempt, sample.step, sample.step_ms, loss);
  }
}

void Committer::put(const AddEvent& change) {
  sql_.event.run(change.at, change.sweep, change.trial, change.attempt, change.allocation,
      word_of(change.kind), change.detail);
}

void Committer::put(const ServedRequest& change) {
  constexpr int most_kept = 1000;  // far more than can wait to be answered
  sql_.served.run(change.id, change.at, change.answer);
  sql_.served_long_ago.run(most_kept);
}

void Committer::put(const AddKnowledge& change) {
  sql_.knowledge.run(change.name, change.at, change.text);
}

void Committer::put(const ForgetKnowledge& change) {
  sql_.forgotten.run(change.name, change.at);
  sql_.unused_knowledge.run();
}

void Committer::put(const SeenNode& change) {
  sql_.node.run(change.node, change.host, change.at);
  if (change.allocation != 0)
    ledger_.seen(change.allocation, change.node, change.has_lead, change.switches);
}

namespace {

constexpr std::int64_t sampled_one_in = 256;

}  // namespace

Conservation::Conservation(Database& database, std::span<const Change> changes, std::int64_t commit)
    : database_(database) {
  if (commit % sampled_one_in != 0) return;
  for (const Change& change : changes) {
    const auto* trial = std::get_if<SetTrial>(&change);
    if (trial == nullptr) continue;
    sweep_ = trial->row.sweep;
    before_ = count();
    return;
  }
}

Conservation::Counts Conservation::count() const {
  Statement select(database_,
      "SELECT count(*), ifnull(sum(state IN ('planned', 'queued', 'running', 'ended')), 0) FROM "
      "trials WHERE sweep = ?");
  auto row = select.use(sweep_);
  Counts counts;
  if (row.next()) counts = {row.integer(0), row.integer(1)};
  return counts;
}

void Conservation::check() const {
  if (sweep_ == 0) return;
  const Counts after = count();
  in_work_of(sweep_, [&] {
    INVARIANT(after.all == before_.all, "a write neither makes nor loses a trial", sweep_,
        before_.all, after.all);
    INVARIANT(after.all == after.by_state, "each trial is in one state", sweep_, after.all,
        after.by_state);
  });
}

void check_completed(Database& database, std::span<const Change> changes) {
  for (const Change& change : changes) {
    const auto* trial = std::get_if<SetTrial>(&change);
    if (trial == nullptr || trial->row.outcome != Outcome::completed) continue;
    // A later change of the same commit may have planned it again: then it is not looked at.
    Statement select(database,
        "SELECT (SELECT count(*) FROM attempts WHERE trial = t.id AND counted = 1) FROM trials AS "
        "t WHERE t.id = ? AND t.outcome = 'completed' AND t.side = ''");
    auto row = select.use(trial->row.id);
    if (!row.next()) continue;
    const std::int64_t counted = row.integer(0);
    in_work_of(trial->row.sweep, [&] {
      INVARIANT(
          counted == 1, "a completed trial has one counted measurement", trial->row.id, counted);
    });
  }
}

}  // namespace shardsweep::sqlite
