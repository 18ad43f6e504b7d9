// SPDX-License-Identifier: Apache-2.0
#include "store/commit.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <cmath>

namespace shardsweep::sqlite {
namespace {

constexpr std::array<std::string_view, 4> job_state_words{"pending", "running", "ended",
                                                          "unknown"};

template <class Words, class Enum>
std::string_view word(const Words& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

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
      "hosts, detail{}) VALUES (?, ?, nullif(?, ''), ?, ?, iif(json_valid(?6), ?6, '{{}}'), "
      "iif(json_valid(?7), ?7, '[]'), ?8{}) ON CONFLICT (attempt) DO NOTHING",
      columns, values);
}

}  // namespace

Committer::Statements::Statements(Database& database)
    : sweep(database,
            "UPDATE sweeps SET state = ?2, failed_starts = ?3, failed_nodes = ?4, held = ?5 "
            "WHERE id = ?1"),
      trial(database,
            "UPDATE trials SET state = ?2, outcome = ?3, cause = iif(?10, prior_cause, ?4), "
            "charged = ?5, elsewhere = ?6, attempts = ?7, prior_cause = CASE WHEN ?8 IS NULL "
            "THEN '' WHEN ?8 IS prior THEN prior_cause ELSE cause END, prior = ?8, "
            "cancelled_by = ?9 WHERE id = ?1"),
      uncount(database,
              "UPDATE attempts SET counted = 0 WHERE trial = ?1 AND counted = 1 AND id <> ?2 "
              "AND EXISTS (SELECT 1 FROM trials WHERE id = ?1 AND state <> 'ended')"),
      attempt(
          database,
          "INSERT INTO attempts (id, trial, number, allocation, nonce, dir, state, revoked) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET "
          "trial = ?2, number = ?3, allocation = ?4, nonce = ?5, dir = ?6, state = ?7, "
          "revoked = ?8"),
      attempt_end(
          database,
          "UPDATE attempts SET outcome = ?2, counted = ?3, exit_code = ?4, signal = ?5, "
          "cause = ?6, source = ?7, leaked = ?8 WHERE id = ?1"),
      attempt_times(database,
                    "UPDATE attempts SET started_at = iif(?2 = 0, started_at, ?2), "
                    "ended_at = iif(?3 = 0, ended_at, ?3) WHERE id = ?1"),
      allocation(
          database,
          "INSERT INTO allocations (id, sweep, token, job_name, job_id, dir, backend, "
          "nodes, slots_per_node, state, submission, job_state, created_at, claimed_at, "
          "last_beat, from_lead_n, said_bye, draining, end_reason, end_outcome, time_limit_s, "
          "detail, started, gave_back, deferrals, submit_after, resubmissions, missing, "
          "missing_since, running_since, deadline, quiet_since) VALUES (?1, "
          "nullif(?2, 0), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
          "?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32) ON "
          "CONFLICT "
          "(id) DO UPDATE SET sweep = nullif(?2, 0), "
          "token = ?3, job_name = ?4, job_id = ?5, dir = ?6, backend = ?7, nodes = ?8, "
          "slots_per_node = ?9, state = ?10, submission = ?11, job_state = ?12, "
          "created_at = ?13, claimed_at = ?14, last_beat = ?15, from_lead_n = ?16, "
          "said_bye = ?17, draining = ?18, end_reason = ?19, end_outcome = ?20, "
          "time_limit_s = ?21, detail = ?22, started = ?23, gave_back = ?24, "
          "deferrals = ?25, submit_after = ?26, resubmissions = ?27, missing = ?28, "
          "missing_since = ?29, running_since = ?30, deadline = ?31, quiet_since = ?32"),
      allocation_lead(
          database, "UPDATE allocations SET host = ?2, pid = ?3, pid_start = ?4 WHERE id = ?1"),
      allocation_end(database, "UPDATE allocations SET ended_at = ?2 WHERE id = ?1"),
      measurement(database, insert_measurement()),
      train_step(database,
                 "INSERT INTO train_steps (attempt, step, step_ms, loss) VALUES (?, ?, ?, ?) "
                 "ON CONFLICT DO NOTHING"),
      event(database,
            "INSERT INTO events (at, sweep, trial, attempt, allocation, kind, detail) VALUES "
            "(?, nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, ?)"),
      node(database,
           "INSERT INTO nodes (node, host, first_seen, last_seen) VALUES (?1, ?2, ?3, ?3) "
           "ON CONFLICT (node, host) DO UPDATE SET last_seen = max(last_seen, ?3)") {}

Committer::Committer(Database& database)
    : database_(database), sql_(database), ledger_(database) {}

void Committer::apply(const Change& change) {
  std::visit([this](const auto& one) { put(one); }, change);
}

void Committer::put(const SetSweep& change) {
  sql_.sweep.run(change.id, word(sweep_state_words, change.state), change.failed_starts,
                 change.failed_nodes, change.held);
  if (database_.changed() == 0)
    fail(FaultKind::corrupt, fmt::format("there is no sweep {}", change.id));
}

void Committer::put(const SetTrial& change) {
  const auto named = [](std::optional<Outcome> outcome) {
    return outcome ? std::optional(name(*outcome)) : std::nullopt;
  };
  sql_.trial.run(change.id, name(change.state), named(change.outcome), change.cause,
                 change.charged, change.elsewhere, change.attempts, named(change.prior),
                 word(cancelled_by_words, change.cancelled_by), change.restores);
  if (database_.changed() == 0)
    fail(FaultKind::corrupt, fmt::format("there is no trial {}", change.id));
}

void Committer::put(const PutAttempt& change) {
  const auto& row = change.row;
  sql_.attempt.run(row.id, row.trial, row.number, row.allocation, row.nonce, row.dir,
                   name(row.state), row.revoked);
  if (change.outcome) {
    // The older measurement of a trial that was run again is kept, and counted no more. A
    // trial that has ended gets no second one: the index refuses it.
    if (change.counted) sql_.uncount.run(row.trial, row.id);
    sql_.attempt_end.run(row.id, name(*change.outcome), change.counted, change.exit_code,
                         change.signal, change.cause, change.source, change.leaked);
    ledger_.attempt_end(row.id, change.node, change.also);
  }
  if (change.started_at != 0 || change.ended_at != 0)
    sql_.attempt_times.run(row.id, change.started_at, change.ended_at);
}

void Committer::put(const PutAllocation& change) {
  const auto& row = change.row;
  sql_.allocation.run(
      row.id, row.sweep, row.token, row.job_name, row.job_id, row.dir, row.backend, row.nodes,
      row.slots_per_node, name(row.state), word(submission_words, row.submission),
      word(job_state_words, row.job_state), row.created_at, row.claimed_at, row.last_beat,
      row.from_lead_n, row.said_bye, row.draining, row.end_reason,
      row.end_outcome ? name(*row.end_outcome) : std::string_view(), row.time_limit_s,
      row.detail, row.started, row.gave_back, row.deferrals, row.submit_after,
      row.resubmissions, word(missing_words, row.missing), row.missing_since, row.running_since,
      row.deadline, row.quiet_since);
  if (!change.host.empty())
    sql_.allocation_lead.run(row.id, change.host, change.pid, change.pid_start);
  if (change.ended_at != 0) sql_.allocation_end.run(row.id, change.ended_at);
  if (!row.probe_of.empty()) ledger_.probe(row.id, row.probe_of);
}

void Committer::put(const AddMeasurement& change) {
  {
    auto row = sql_.measurement.use(change.attempt, change.trial, change.mark,
                                    change.flops_model, change.runner_version, change.software,
                                    change.hosts, change.detail);
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
                 change.kind, change.detail);
}

void Committer::put(const SeenNode& change) {
  sql_.node.run(change.node, change.host, change.at);
  if (change.allocation != 0) ledger_.seen(change.allocation, change.node, change.has_lead);
}

}  // namespace shardsweep::sqlite
