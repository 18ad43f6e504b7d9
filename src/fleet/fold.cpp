// SPDX-License-Identifier: Apache-2.0
#include "fleet/fold.hpp"

#include "fleet/allocation.hpp"
#include "fleet/control.hpp"
#include "fleet/fold_rows.hpp"
#include "fleet/nodes.hpp"
#include "fleet/stragglers.hpp"
#include "fleet/trial_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {

AllocationRow* find_allocation(World& world, AllocationId id) {
  const auto found = world.allocations.find(id);
  return found == world.allocations.end() ? nullptr : &found->second;
}

void add_event(Fold fold, AddEvent event) {
  event.at = fold.now;
  if (const auto trial = fold.world.trials.find(event.trial);
      trial != fold.world.trials.end()) {
    event.sweep = trial->second.sweep;
  } else if (const auto* row = find_allocation(fold.world, event.allocation)) {
    event.sweep = row->sweep;
  }
  fold.changes.emplace_back(std::move(event));
}

void put(Fold fold, const AllocationRow& row) {
  fold.changes.emplace_back(PutAllocation{.row = row});
}

namespace {

void put(Fold fold, const TrialRow& row, std::string cause) {
  fold.changes.emplace_back(trial_change(row, std::move(cause)));
}

/// How one attempt ended, after joining what agent and runner say.
struct Ending {
  Outcome outcome = Outcome::lost;
  std::string cause;
  std::string source;
  int exit_code = -1;
  int signal = 0;
  int leaked = 0;
  std::string node{};
  std::string also{};
};

/// True where nothing but the missing result speaks against the attempt.
bool ended_in_peace(const Ending& said) {
  return said.outcome == Outcome::completed ||
         (said.outcome == Outcome::crashed && said.source == "exit" && said.exit_code == 0);
}

/// A durable result makes the attempt completed, whoever died afterwards; without one nobody's
/// word makes it so. A record that should have been the result and is none is the runner's
/// fault.
Ending join(Ending said, const RecordsSummary& records) {
  if (!records.unreadable.empty()) {
    said.outcome = Outcome::lost;
    said.cause = records.unreadable;
    said.source = "daemon";
    return said;
  }
  if (records.result) {
    if (said.outcome != Outcome::completed) {
      said.cause =
          fmt::format("measured, though it ended {}: {}", name(said.outcome), said.cause);
    }
    said.outcome = Outcome::completed;
    said.source = "runner";
  } else if (!records.flaw.empty() && ended_in_peace(said)) {
    said.outcome = Outcome::crashed;
    said.cause = records.flaw;
    said.source = "runner";
    said.node.clear();  // it would be the same on every node
  } else if (said.outcome == Outcome::completed) {
    said.outcome = Outcome::lost;
    said.cause = "The agent saw a result record, but the records cannot be read any more.";
    said.source = "daemon";
  }
  return said;
}

/// A result that is marked is measured again: it may have been another's doing.
Retry retry_of(Outcome outcome, bool marked) {
  return marked ? Retry::on_trial : info(outcome).retry;
}

/// Whether the trial gets another attempt, and who is charged for this one.
[[nodiscard]] SetTrial settle_trial(TrialRow& trial, const Policy& policy, TrialEnd end,
                                    Retry retry) {
  switch (retry) {
    case Retry::on_trial:
      ++trial.charged;
      break;
    case Retry::elsewhere:
      ++trial.elsewhere;
      break;
    case Retry::never:
      break;
  }
  const bool within_budget =
      (retry == Retry::on_trial && trial.charged <= policy.retry_on_trial) ||
      (retry == Retry::elsewhere && trial.elsewhere <= policy.retry_elsewhere);
  if (!within_budget || trial.hidden) return end_trial(trial, std::move(end));
  // A marked measurement is the trial's until a better one is there.
  if (end.counted) trial.prior = Outcome::completed;
  trial.state = State::planned;
  return trial_change(trial, std::move(end.cause));
}

/// What an ending says about nodes. Where one trial has failed on enough of them it is the
/// trial: then its outcome is its own.
void judge_ending(Fold fold, const Policy& policy, const AttemptRow& attempt, Ending& ending) {
  if (ending.outcome == Outcome::completed) return suspect_others(fold, attempt);
  const std::string kind = evidence_kind(ending.outcome, ending.source);
  if (kind.empty()) return;
  add_evidence(fold, ending.node,
               {.at = fold.now,
                .kind = kind,
                .trial = attempt.trial,
                .attempt = attempt.id,
                .detail = ending.cause});
  if (ending.outcome != Outcome::node_failure) return;
  const auto nodes = nodes_failed_under(fold.world, attempt.trial);
  if (static_cast<std::int64_t>(nodes.size()) < policy.layout_after) return;
  ending.outcome = Outcome::crashed;
  ending.cause =
      fmt::format("failed on {} distinct nodes ({}), so the layout is to blame; last: {}",
                  nodes.size(), fmt::join(nodes, ", "), ending.cause);
  acquit_nodes(fold, policy, attempt.trial);
}

/// The trial has taken enough nodes with it: no more of them.
bool is_poison(const Ending& said, const Ending& judged) {
  return said.outcome == Outcome::node_failure && judged.outcome == Outcome::crashed;
}

/// `at` is a time by the clock that its start was taken from.
void end_attempt(Fold fold, const Policy& policy, AttemptId id, const Ending& said,
                 const RecordsSummary& records, Timestamp at) {
  const auto found = fold.world.attempts.find(id);
  if (found == fold.world.attempts.end() || found->second.state == State::ended) return;
  AttemptRow& attempt = found->second;
  Ending joined = join(said, records);
  if (!records.doubt.empty())
    joined.also += (joined.also.empty() ? "implausible: " : "; implausible: ") + records.doubt;
  Ending ending = joined;
  judge_ending(fold, policy, attempt, ending);
  attempt.state = State::ended;
  const auto trial = fold.world.trials.find(attempt.trial);
  const bool wanted = !attempt.revoked && trial != fold.world.trials.end() &&
                      trial->second.state != State::ended;
  const bool marked = records.result && !records.result->mark.empty();
  // A marked measurement replaces none that is counted already.
  const bool counted = ending.outcome == Outcome::completed && wanted &&
                       !(marked && trial->second.prior == Outcome::completed);
  fold.changes.emplace_back(PutAttempt{.row = attempt,
                                       .outcome = ending.outcome,
                                       .counted = counted,
                                       .exit_code = ending.exit_code,
                                       .signal = ending.signal,
                                       .cause = ending.cause,
                                       .source = ending.source,
                                       .leaked = ending.leaked,
                                       .ended_at = at,
                                       .node = ending.node,
                                       .also = ending.also});
  if (records.result) {
    AddMeasurement measurement = *records.result;
    measurement.attempt = attempt.id;
    measurement.trial = attempt.trial;
    fold.changes.emplace_back(std::move(measurement));
  }
  add_event(fold, {.trial = attempt.trial,
                   .attempt = attempt.id,
                   .allocation = attempt.allocation,
                   .kind = std::string(name(ending.outcome)),
                   .detail = ending.cause});
  if (wanted) {
    const Retry retry =
        is_poison(joined, ending) ? Retry::never : retry_of(ending.outcome, marked);
    trial->second.last = ending.outcome;
    fold.changes.emplace_back(settle_trial(
        trial->second, policy,
        {.outcome = ending.outcome, .cause = ending.cause, .counted = counted}, retry));
  }
}

/// Back in the queue: it never ran.
void return_attempt(Fold fold, AttemptId id, const std::string& why) {
  const auto found = fold.world.attempts.find(id);
  if (found == fold.world.attempts.end() || found->second.state == State::ended) return;
  AttemptRow& attempt = found->second;
  const bool superseded = attempt.revoked;  // the trial has gone on without it
  attempt.state = State::ended;
  attempt.revoked = true;
  fold.changes.emplace_back(PutAttempt{.row = attempt,
                                       .outcome = Outcome::cancelled,
                                       .cause = why,
                                       .source = "daemon",
                                       .ended_at = fold.now});
  const auto trial = fold.world.trials.find(attempt.trial);
  if (!superseded && trial != fold.world.trials.end() && trial->second.state != State::ended) {
    trial->second.state = State::planned;
    put(fold, trial->second, "");
  }
}

void start_attempt(Fold fold, AttemptId id, Timestamp at) {
  const auto found = fold.world.attempts.find(id);
  if (found == fold.world.attempts.end() || found->second.state != State::queued) return;
  found->second.state = State::running;
  fold.changes.emplace_back(PutAttempt{.row = found->second, .started_at = at});
  const auto trial = fold.world.trials.find(found->second.trial);
  if (!found->second.revoked && trial != fold.world.trials.end() &&
      trial->second.state == State::queued) {
    trial->second.state = State::running;
    put(fold, trial->second, "");
  }
  add_event(fold, {.trial = found->second.trial,
                   .attempt = id,
                   .allocation = found->second.allocation,
                   .kind = "started"});
}

SweepState state_or_cancelled(const World& world, SweepId id) {
  const auto found = std::find_if(world.sweeps.begin(), world.sweeps.end(),
                                  [id](const SweepRow& sweep) { return sweep.id == id; });
  return found == world.sweeps.end() ? SweepState::cancelled : found->state;
}

struct LineFolder {
  Fold fold;
  const Policy& policy;
  AllocationRow& allocation;
  Timestamp at;
  const std::optional<RecordsSummary>& records;

  void operator()(const Claimed& claimed) const {
    allocation.state = State::running;
    allocation.claimed_at = at;
    // A look that began before this one may still say that it waits.
    if (allocation.job_state != JobState::ended) allocation.job_state = JobState::running;
    allocation.submission = Submission::accepted;
    // Of several jobs with one token, this is the one.
    if (!claimed.job_id.empty()) allocation.job_id = claimed.job_id;
    fold.changes.emplace_back(PutAllocation{.row = allocation,
                                            .host = claimed.host,
                                            .pid = claimed.pid,
                                            .pid_start = claimed.pid_start});
    add_event(fold, {.allocation = allocation.id,
                     .kind = "claimed",
                     .detail = fmt::format("lead {} on {}", claimed.pid, claimed.host)});
    if (!claimed.node.empty()) see_node({claimed.node, claimed.host, at, allocation.id, true});
  }
  void operator()(const Beat&) const {}
  void operator()(const Started& started) const {
    allocation.started = true;
    if (control_time(allocation, started.attempt)) allocation.control_since = at;
    start_attempt(fold, started.attempt, at);
  }
  void operator()(const Ended& ended) const {
    // Its program was not there: an allocation of such attempts has started nothing.
    if (ended.start_error != 0) allocation.started = false;
    Ending ending{.outcome = ended.outcome,
                  .cause = ended.cause,
                  .source = ended.source,
                  .exit_code = ended.exit_code,
                  .signal = ended.signal,
                  .leaked = ended.leaked,
                  .node = ended.node,
                  .also = ended.also};
    if (!allocation.probe_of.empty()) return take_probe(ended);
    if (const auto time = control_time(allocation, ended.attempt))
      return measure_control(*time, ended);
    // The lead knows that it was told to stop; the scheduler knows why.
    if (ended.outcome == Outcome::preempted && allocation.end_outcome) {
      ending.outcome = *meaning_of_end(allocation);
      ending.cause = fmt::format("{}; {}", allocation.end_reason, ended.cause);
      ending.source = "scheduler";
    }
    RecordsSummary recorded = records.value_or(RecordsSummary{});
    // What the agent saw on the nodes goes before what is wrong with the numbers.
    if (recorded.result && !ended.mark.empty()) recorded.result->mark = ended.mark;
    if (recorded.result && recorded.result->mark.empty() &&
        control_is_off(fold.world, policy, allocation.id))
      recorded.result->mark = "contaminated";
    compare_nodes(ended, recorded);
    end_attempt(fold, policy, ended.attempt, ending, recorded, at);
  }
  /// What was disturbed tells nothing about who is slow.
  void compare_nodes(const Ended& ended, const RecordsSummary& recorded) const {
    const auto attempt = fold.world.attempts.find(ended.attempt);
    const bool fresh =
        attempt != fold.world.attempts.end() && attempt->second.state != State::ended;
    if (fresh && recorded.result && recorded.result->mark.empty())
      note_paces(fold, policy, attempt->second, paces(recorded.own_work, ended.nodes));
  }
  void measure_control(ControlTime time, const Ended& ended) const {
    const bool whole = records && ended.outcome == Outcome::completed && ended.mark.empty();
    ControlFigures figures;
    if (whole) figures.busbw_bytes_per_s = records->busbw_bytes_per_s;
    if (whole && records->result)
      figures.tokens_per_s = records->result->metrics.at("tokens_per_s_per_gpu");
    const bool any = figures.tokens_per_s > 0 || figures.busbw_bytes_per_s > 0;
    // Its own time: a daemon may read of it long after.
    const bool flawed = whole && !records->flaw.empty();
    const std::string why =
        flawed ? records->flaw : fmt::format("{}: {}", name(ended.outcome), ended.cause);
    take_control({fold.world, at, fold.changes}, policy, allocation, time, figures,
                 any ? "" : why);
  }
  /// It has no trial: what counts is whether it was measured.
  void take_probe(const Ended& ended) const {
    const std::string cause = fmt::format("{}: {}", name(ended.outcome), ended.cause);
    end_probe(fold, policy, allocation, ended.outcome == Outcome::completed, cause);
    allocation.draining = true;
  }
  void operator()(const Revoked& revoked) const {
    if (const auto time = control_time(allocation, revoked.attempt))
      return take_control(fold, policy, allocation, *time, {},
                          "no time was left for the control");
    // Given back unasked: there is no time left for it, or its lead leaves. It would come back
    // as often as it is assigned.
    if (!is_asked_for(revoked.attempt) && !allocation.draining)
      allocation.draining = allocation.gave_back = true;
    return_attempt(fold, revoked.attempt, "taken back before it started");
  }
  /// As orders_for() takes attempts back.
  [[nodiscard]] bool is_asked_for(AttemptId id) const {
    const auto attempt = fold.world.attempts.find(id);
    if (attempt == fold.world.attempts.end() || attempt->second.revoked) return true;
    const auto trial = fold.world.trials.find(attempt->second.trial);
    return trial == fold.world.trials.end() || trial->second.hidden ||
           state_or_cancelled(fold.world, allocation.sweep) != SweepState::active;
  }
  void operator()(const NodeSeen& node) const {
    see_node({node.node, node.host, at, allocation.id});
  }
  void see_node(SeenNode seen) const {
    auto& nodes = fold.world.nodes_of[allocation.id];
    if (std::find(nodes.begin(), nodes.end(), seen.node) == nodes.end())
      nodes.push_back(seen.node);
    if (seen.has_lead) fold.world.lead_nodes[allocation.id] = seen.node;
    fold.changes.emplace_back(std::move(seen));
  }
  void operator()(const FoundOnNode& finding) const {
    add_event(fold, {.allocation = allocation.id,
                     .kind = "finding",
                     .detail = fmt::format("{}: {}: {}", finding.node, finding.kind,
                                           finding.detail)});
    add_evidence(fold, finding.node,
                 {.at = fold.now, .kind = finding.kind, .detail = finding.detail});
  }
  void operator()(const Bye& bye) const {
    allocation.said_bye = true;
    if (allocation.end_reason.empty()) allocation.end_reason = bye.why;
    put(fold, allocation);
  }
};

}  // namespace

void fold_line(Fold fold, const Policy& policy, AllocationId allocation, const FromLead& line,
               const std::optional<RecordsSummary>& records) {
  AllocationRow* row = find_allocation(fold.world, allocation);
  if (row == nullptr || line.n <= row->from_lead_n) return;
  row->from_lead_n = line.n;
  row->last_beat = line.t;
  row->heard_at = fold.now;
  std::visit(LineFolder{fold, policy, *row, line.t, records}, line.body);
  // A beat alone is no news: it is not worth a transaction.
  if (!std::holds_alternative<Beat>(line.body)) put(fold, *row);
}

std::vector<AttemptId> open_attempts(const World& world, AllocationId allocation) {
  std::vector<AttemptId> open;
  for (const auto& [id, row] : world.attempts) {
    if (row.allocation == allocation && row.state != State::ended) open.push_back(id);
  }
  return open;
}

namespace {

/// Of an attempt whose allocation is gone: what its records say, else why that has gone. With
/// --no-kill a job outlives all nodes but its lead's.
Ending ending_of(const RecordsSummary& records, const AllocationRow& allocation,
                 const std::string& lead_node, const std::string& why) {
  if (records.error)
    return {.outcome = *records.error, .cause = records.error_message, .source = "runner"};
  if (records.owns_flaw)
    return {.outcome = Outcome::crashed, .cause = records.flaw, .source = "runner"};
  const Outcome outcome = meaning_of_end(allocation).value_or(Outcome::lost);
  return {.outcome = outcome,
          .cause = "its allocation has ended: " + why,
          .source = allocation.end_outcome ? "scheduler" : "daemon",
          .node = outcome == Outcome::node_failure ? lead_node : ""};
}

}  // namespace

void fold_gone(Fold fold, const Policy& policy, AllocationId allocation,
               const std::vector<Orphan>& orphans, const std::string& why) {
  AllocationRow* row = find_allocation(fold.world, allocation);
  if (row == nullptr) return;
  for (const Orphan& orphan : orphans) {
    const AttemptRow& attempt = fold.world.attempts.at(orphan.attempt);
    const bool ran = attempt.state == State::running || orphan.records.result ||
                     !orphan.records.unreadable.empty() ||
                     !orphan.records.runner_version.empty();
    if (!ran) {
      return_attempt(fold, orphan.attempt, "its allocation ended before it started: " + why);
      continue;
    }
    end_attempt(fold, policy, orphan.attempt,
                ending_of(orphan.records, *row, lead_node(fold.world, allocation), why),
                orphan.records, last_sign(*row, fold.now));
  }
  // Where its short run has ended this says nothing new.
  if (!row->probe_of.empty() && row->draining && row->claimed_at == 0) {
    put_off_probe(fold, *row);
  } else if (!row->probe_of.empty()) {
    end_probe(fold, policy, *row, false, why);
  }
  row->state = State::ended;
  row->end_reason = why;
  fold.world.nodes_of.erase(allocation);
  fold.world.lead_nodes.erase(allocation);
  fold.changes.emplace_back(PutAllocation{.row = *row, .ended_at = fold.now});
  add_event(fold, {.allocation = allocation, .kind = "allocation ended", .detail = why});
}

}  // namespace shardsweep
