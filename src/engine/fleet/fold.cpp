// SPDX-License-Identifier: Apache-2.0
// Decision: A lead that gets SIGTERM waits for the scheduler to say why.
#include "fleet/fold.hpp"

#include "fleet/allocation.hpp"
#include "fleet/control.hpp"
#include "fleet/nodes.hpp"
#include "fleet/stragglers.hpp"
#include "fleet/trial_change.hpp"

#include <shardsweep/duration.hpp>
#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {

void add_event(Fold fold, AddEvent event) {
  event.at = fold.now;
  if (const TrialRow* trial = fold.world.trial(event.trial)) {
    event.sweep = trial->sweep;
  } else if (const AllocationRow* row = fold.world.allocation(event.allocation)) {
    event.sweep = row->sweep;
  }
  fold.world.record(std::move(event));
}

namespace {

/// True if the attempt failed at nothing but at writing a result.
bool ended_in_peace(const Ending& said) {
  return said.outcome == Outcome::completed ||
      (said.outcome == Outcome::crashed && said.source == SaidBy::exit && said.exit_code == 0);
}

/// A result that the node agent refused is no measurement, whoever reported it.
Ending refused(Ending said, const RecordsSummary& records) {
  said.outcome = *records.refusal;
  said.cause = records.refusal_message;
  said.source = SaidBy::agent;
  said.node.clear();  // no node's fault: every node would fail the same way
  said.fragmented = false;
  return said;
}

/// Joins the reported ending with the runner's records. A stored result makes the attempt
/// completed, whoever died afterwards. Without a result nobody's report makes it completed. A
/// record that should have been the result but is not valid is the runner's fault.
Ending join(Ending said, const RecordsSummary& records) {
  if (!records.unreadable.empty()) {
    said.outcome = Outcome::lost;
    said.cause = records.unreadable;
    said.source = SaidBy::daemon;
    return said;
  }
  if (records.refusal) return refused(std::move(said), records);
  if (records.code_unknown) {
    said.outcome = Outcome::lost;
    said.cause = fmt::format(
        "The attempt has a result, but whether its programs had changed meanwhile was not "
        "checked{}{}",
        said.cause.empty() ? "." : ": ", said.cause);
    said.source = SaidBy::daemon;
    return said;
  }
  if (records.result) {
    if (said.outcome != Outcome::completed) {
      said.cause = fmt::format("measured, though it ended {}: {}", name(said.outcome), said.cause);
    }
    said.outcome = Outcome::completed;
    said.source = SaidBy::runner;
  } else if (!records.flaw.empty() && ended_in_peace(said)) {
    said.outcome = Outcome::crashed;
    said.cause = records.flaw;
    said.source = SaidBy::runner;
    said.node.clear();  // no node's fault: every node would fail the same way
  } else if (said.outcome == Outcome::completed) {
    said.outcome = Outcome::lost;
    said.cause = "The agent saw a result record, but the records cannot be read any more.";
    said.source = SaidBy::daemon;
  }
  return said;
}

/// Says where a failed attempt is tried again. A marked result is measured again, because something
/// else may have disturbed it. An attempt that its job's end cut off before half of the job's time
/// had too little time to be judged by.
Retry retry_of(Outcome outcome, bool marked, bool began_late) {
  if (began_late) return Retry::elsewhere;
  return marked ? Retry::on_trial : info(outcome).retry;
}

/// Time of an attempt that its job's end ended: at most half of the job's time, so that another job
/// can hold it. 0: something else ended it. The store reads the same from its rows
/// (`trial_row_columns`).
double cut_after_s(const AllocationRow* job, const AttemptRow& attempt, const Ending& ending) {
  // A timeout by the policy's own limit was not caused by the job's end.
  const bool by_job = ending.outcome == Outcome::timeout && ending.source != SaidBy::policy;
  if (!by_job || job == nullptr || job->time_limit_s <= 0 || attempt.started_at == 0) return 0;
  return std::min(to_seconds(attempt.ended_at - attempt.started_at), job->time_limit_s / 2);
}

/// Decides if the trial gets another attempt, and whether this one uses up a retry.
void settle_trial(TrialRow& trial, const Policy& policy, TrialEnd end, Retry retry) {
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
  const bool within_budget = (retry == Retry::on_trial && trial.charged <= policy.retry_on_trial) ||
      (retry == Retry::elsewhere && trial.elsewhere <= policy.retry_elsewhere);
  if (!within_budget || trial.hidden) return end_trial(trial, std::move(end));
  // A marked measurement stays the trial's result until a better one exists.
  if (end.counted && trial.prior != Outcome::completed) {
    trial.prior = Outcome::completed;
    trial.prior_cause = trial.cause;
  }
  trial.state = State::planned;
  trial.cause = std::move(end.cause);
}

/// Memory in pieces is no verdict on the layout before segments that grow were tried. Nobody is
/// charged: the same attempt would end so again.
bool try_expandable(TrialRow& trial, const Policy& policy, const std::string& cause) {
  if (trial.expandable || policy.retry_fragmented <= 0 || trial.hidden) return false;
  trial.expandable = true;
  trial.fragmented = false;
  trial.state = State::planned;
  trial.cause = cause;
  return true;
}

/// Charges the nodes for an ending. If one trial has failed on enough nodes, the trial itself is to
/// blame, and its outcome says so.
void judge_ending(Fold fold, const Policy& policy, const AttemptRow& attempt, Ending& ending) {
  if (ending.outcome == Outcome::completed) return suspect_others(fold, attempt);
  const auto kind = evidence_kind(ending);
  if (!kind) return;
  add_evidence(fold, ending.node,
      {.at = fold.now,
          .kind = *kind,
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
  forget_evidence_of(fold, policy, attempt.trial);
}

/// True if the trial has failed on so many nodes that it must not run on more.
bool layout_is_to_blame(const Ending& said, const Ending& judged) {
  return said.outcome == Outcome::node_failure && judged.outcome == Outcome::crashed;
}

/// Ends the attempt's row. If its node's clock was set back meanwhile, the attempt has taken no
/// time.
void put_ending(AttemptRow& row, Ending ending, Timestamp at) {
  row.state = State::ended;
  row.ended_at = std::max(at, row.started_at);
  ending.fragmented = ending.fragmented && ending.outcome == Outcome::oom;
  row.ending = std::move(ending);
}

/// Sentence on the bound that ended the attempt. It uses the attempt's own row, so every reader of
/// the records gets the same sentence.
std::string cut_text(const AttemptRow& attempt, const AddMeasurement& measured) {
  const auto found = measured.metrics.find("train_step_ms");
  const double step_ms = found == measured.metrics.end() ? 0 : found->second;
  if (attempt.leader_step_ms <= 0 || step_ms <= 0)
    return "Cut short: the runner gave up before its last train step.";
  return fmt::format(
      "Cut short: {:.4g} ms per train step, {:.2f} times the {:.4g} ms of its cell's best "
      "(search.cut_short is {:.3g}).",
      step_ms, step_ms / attempt.leader_step_ms, attempt.leader_step_ms,
      attempt.give_up_above_ms / attempt.leader_step_ms);
}

/// A new measurement takes the place of the older one of a trial that was run again.
void uncount_others(World& world, const AttemptRow& counted) {
  for (const AttemptId id : world.index().attempts_at(counted.trial)) {
    const AttemptRow& attempt = world.attempts().at(id);
    if (attempt.counted && id != counted.id) world.edit(attempt)->counted = false;
  }
}

[[nodiscard]] bool is_counted_alone(const World& world, const AttemptRow& counted) {
  const auto& all = world.index().attempts_at(counted.trial);
  return std::none_of(all.begin(), all.end(),
      [&](AttemptId id) { return id != counted.id && world.attempts().at(id).counted; });
}

/// True if the attempt's result still counts. A cancellation that came before the news of a result
/// undoes nothing: the result was measured, and would be measured again. The same holds for a rerun
/// whose trial got its old outcome back, but an earlier measurement stands.
bool is_wanted(const TrialRow* trial, const AttemptRow& attempt, Outcome outcome) {
  if (attempt.revoked || trial == nullptr) return false;
  return trial->state != State::ended ||
      (trial->outcome != Outcome::completed && outcome == Outcome::completed);
}

/// `at` is a time by the same clock as the attempt's start.
void end_attempt(Fold fold, const Policy& policy, AttemptId id, const Ending& said,
    const RecordsSummary& records, Timestamp at) {
  const AttemptRow* found = fold.world.attempt(id);
  if (found == nullptr || found->state == State::ended) return;
  const AttemptRow& attempt = *found;
  Ending joined = join(said, records);
  if (!records.doubt.empty())
    joined.also += (joined.also.empty() ? "implausible: " : "; implausible: ") + records.doubt;
  if (records.result && records.result->cut_short)
    joined.cause =
        cut_text(attempt, *records.result) + (joined.cause.empty() ? "" : " " + joined.cause);
  Ending ending = joined;
  judge_ending(fold, policy, attempt, ending);
  const TrialRow* trial = fold.world.trial(attempt.trial);
  const bool wanted = is_wanted(trial, attempt, ending.outcome);
  // A profiler or a snapshot distorts the figures of a side run.
  const bool side = trial != nullptr && trial->side != SideRun::none;
  const bool marked = !side && records.result && records.result->mark != Mark::none;
  // A marked measurement never replaces one that is counted.
  const bool counted = ending.outcome == Outcome::completed && wanted && !side &&
      !(marked && trial->prior == Outcome::completed);
  if (counted && trial->prior == Outcome::completed) uncount_others(fold.world, attempt);
  INVARIANT(!counted || is_counted_alone(fold.world, attempt), "one attempt of a trial is counted",
      attempt.id, attempt.trial, trial->prior);
  {
    auto edit = fold.world.edit(attempt);
    put_ending(*edit, ending, at);
    edit->counted = counted;
    edit->environment = records.environment;
    edit->image_digest = records.image_digest;
    edit->code_hash = records.code_hash;
  }
  if (records.result && !side) {
    AddMeasurement measurement = *records.result;
    measurement.attempt = attempt.id;
    measurement.trial = attempt.trial;
    fold.world.record(std::move(measurement));
  }
  add_event(fold,
      {.trial = attempt.trial,
          .attempt = attempt.id,
          .allocation = attempt.allocation,
          .kind = event_of(ending.outcome),
          .detail = ending.cause});
  if (wanted) {
    // A tool that is not there is on no other node either.
    const bool no_tool = side && joined.start_error != 0;
    const bool final =
        layout_is_to_blame(joined, ending) || trial->state == State::ended || no_tool;
    const AllocationRow* job = fold.world.allocation(attempt.allocation);
    const double cut_s = cut_after_s(job, attempt, ending);
    const bool late = cut_s > 0 && cut_s < job->time_limit_s / 2;
    const Retry retry = final ? Retry::never : retry_of(ending.outcome, marked, late);
    auto edit = fold.world.edit(*trial);
    edit->predicted_s = std::max(edit->predicted_s, cut_s);
    edit->last = ending.outcome;
    edit->fragmented = ending.fragmented && ending.outcome == Outcome::oom;
    if (edit->fragmented && !side && try_expandable(*edit, policy, ending.cause)) return;
    settle_trial(*edit, policy,
        {.outcome = ending.outcome, .cause = ending.cause, .counted = counted}, retry);
  }
}

/// Opens a trial: causes of an earlier attempt do not belong to this state.
void set_open(TrialRow& trial, State state) {
  trial.state = state;
  trial.cause.clear();
}

/// Puts the attempt's trial back into the queue, because the attempt never ran, or ran the wrong
/// programs. `at` as in end_attempt().
void return_attempt(Fold fold, AttemptId id, const std::string& why, Timestamp at) {
  const AttemptRow* attempt = fold.world.attempt(id);
  if (attempt == nullptr || attempt->state == State::ended) return;
  const bool superseded = attempt->revoked;  // the trial has gone on without it
  {
    auto edit = fold.world.edit(*attempt);
    edit->revoked = true;
    put_ending(*edit, {.outcome = Outcome::cancelled, .cause = why, .source = SaidBy::daemon}, at);
  }
  const TrialRow* trial = fold.world.trial(attempt->trial);
  if (!superseded && trial != nullptr && trial->state != State::ended)
    set_open(*fold.world.edit(*trial), State::planned);
}

void start_attempt(Fold fold, AttemptId id, Timestamp at) {
  const AttemptRow* attempt = fold.world.attempt(id);
  if (attempt == nullptr || attempt->state != State::queued) return;
  {
    auto edit = fold.world.edit(*attempt);
    edit->state = State::running;
    edit->started_at = at;
  }
  const TrialRow* trial = fold.world.trial(attempt->trial);
  if (!attempt->revoked && trial != nullptr && trial->state == State::queued)
    set_open(*fold.world.edit(*trial), State::running);
  add_event(fold,
      {.trial = attempt->trial,
          .attempt = id,
          .allocation = attempt->allocation,
          .kind = EventKind::started});
}

SweepState state_or_cancelled(const World& world, SweepId id) {
  const SweepRow* sweep = world.sweep(id);
  return sweep == nullptr ? SweepState::cancelled : sweep->state;
}

struct LineFolder {
  Fold fold;
  const Policy& policy;
  AllocationRow& allocation;  // row of an edit that ends with the line
  Timestamp at;
  const std::optional<RecordsSummary>& records;

  void operator()(const Claimed& claimed) const {
    allocation.state = State::running;
    allocation.claimed_at = at;
    // A look that began before the claim may still report that the job waits.
    if (allocation.job_state != JobState::ended) allocation.job_state = JobState::running;
    allocation.submission = Submission::accepted;
    // The claim decides which of several jobs with one token counts.
    if (!claimed.job_id.empty()) allocation.job_id = claimed.job_id;
    if (!claimed.host.empty()) {
      allocation.host = claimed.host;
      allocation.pid = claimed.pid;
      allocation.pid_start = claimed.pid_start;
    }
    add_event(fold,
        {.allocation = allocation.id,
            .kind = EventKind::claimed,
            .detail = fmt::format("lead {} on {}", claimed.pid, claimed.host)});
    if (!claimed.node.empty())
      fold.world.see_node({claimed.node, claimed.host, at, allocation.id, true});
  }
  void operator()(const Beat&) const {}
  /// True if the lead speaks of another attempt than the row with that id. A database that was
  /// put back from a backup gave the id once more, in this allocation or in another one.
  [[nodiscard]] bool is_anothers(AttemptId id, const std::string& nonce) const {
    const AttemptRow* attempt = fold.world.attempt(id);
    if (attempt == nullptr) return false;
    return attempt->allocation != allocation.id || (!nonce.empty() && attempt->nonce != nonce);
  }
  void operator()(const Started& started) const {
    if (is_anothers(started.attempt, started.nonce)) return;
    allocation.started = true;
    if (control_time(allocation, started.attempt)) allocation.control_since = at;
    start_attempt(fold, started.attempt, at);
  }
  void operator()(const Ended& ended) const {
    if (is_anothers(ended.attempt, ended.nonce)) return;
    Ending ending = ended.ending;
    // A missing program counts as no start: an allocation of such attempts has started nothing.
    if (ending.start_error != 0 && !is_side(ended.attempt)) allocation.started = false;
    if (!ending.found_code.empty()) return return_attempt(fold, ended.attempt, ending.cause, at);
    if (!allocation.probe_of.empty()) return take_probe(ended);
    if (const auto time = control_time(allocation, ended.attempt))
      return measure_control(*time, ended);
    // The lead knows that it was told to stop; the scheduler knows why.
    if (ending.outcome == Outcome::preempted && allocation.end_outcome) {
      ending.outcome = *meaning_of_end(allocation);
      ending.cause = fmt::format("{}; {}", allocation.end_reason, ending.cause);
      ending.source = SaidBy::scheduler;
    }
    RecordsSummary recorded = records.value_or(RecordsSummary{});
    // Observations of the agent on the nodes outrank doubts about the figures.
    if (recorded.result && ended.ending.mark != Mark::none)
      recorded.result->mark = ended.ending.mark;
    if (recorded.result && recorded.result->mark == Mark::none &&
        control_is_off(fold.world, policy, allocation.id))
      recorded.result->mark = Mark::contaminated;
    if (recorded.result) add_pace(*recorded.result, ended);
    compare_nodes(ended, recorded);
    end_attempt(fold, policy, ended.attempt, ending, recorded, at);
  }
  [[nodiscard]] bool is_side(AttemptId id) const {
    const AttemptRow* attempt = fold.world.attempt(id);
    const TrialRow* trial = attempt == nullptr ? nullptr : fold.world.trial(attempt->trial);
    return trial != nullptr && trial->side != SideRun::none;
  }
  /// The runner's own clock figures outrank those of node agents.
  static void add_pace(AddMeasurement& measured, const Ended& ended) {
    if (ended.sm_clock_mhz > 0 &&
        measured.metrics.emplace("sm_clock_mhz", ended.sm_clock_mhz).second)
      measured.throttled = ended.throttled;
    if (ended.power_w > 0) measured.metrics.emplace("power_w", ended.power_w);
  }
  /// Compares nodes by their own work. Disturbed runs say nothing about slow nodes.
  void compare_nodes(const Ended& ended, const RecordsSummary& recorded) const {
    const AttemptRow* attempt = fold.world.attempt(ended.attempt);
    const bool fresh =
        attempt != nullptr && attempt->state != State::ended && !is_side(ended.attempt);
    if (fresh && recorded.result && recorded.result->mark == Mark::none)
      note_paces(fold, policy, *attempt, paces(recorded.own_work, ended.nodes));
  }
  /// Speed of a result; 0 if it has none, as the record of a proof.
  static double speed_in(const AddMeasurement& result) {
    const auto found = result.metrics.find("tokens_per_s_per_gpu");
    return found == result.metrics.end() ? 0 : found->second;
  }
  void measure_control(ControlTime time, const Ended& ended) const {
    const bool whole =
        records && ended.ending.outcome == Outcome::completed && ended.ending.mark == Mark::none;
    ControlFigures figures;
    if (whole) figures.busbw_bytes_per_s = records->busbw_bytes_per_s;
    if (whole && records->result) figures.tokens_per_s_per_gpu = speed_in(*records->result);
    const bool any = figures.tokens_per_s_per_gpu > 0 || figures.busbw_bytes_per_s > 0;
    const bool flawed = whole && !records->flaw.empty();
    const bool silent = whole && records->result && ended.ending.cause.empty();
    const std::string why = flawed ? records->flaw
                                   : fmt::format("{}: {}", name(ended.ending.outcome),
                                         silent ? "the result has no speed" : ended.ending.cause);
    // Use the line's time: a daemon may read it long after.
    take_control({fold.world, at}, policy, allocation, time, figures, any ? "" : why);
  }
  /// A probe has no trial: it only matters if it was measured.
  void take_probe(const Ended& ended) const {
    const std::string cause = fmt::format("{}: {}", name(ended.ending.outcome), ended.ending.cause);
    end_probe(fold, policy, allocation, ended.ending.outcome == Outcome::completed, cause);
    allocation.draining = true;
  }
  void operator()(const Revoked& revoked) const {
    if (is_anothers(revoked.attempt, "")) return;
    if (const auto time = control_time(allocation, revoked.attempt))
      return take_control(fold, policy, allocation, *time, {}, "no time was left for the control");
    // The lead has given the attempt back unasked, because its time is too short or it leaves. It
    // would give back every attempt that it is assigned.
    if (!is_asked_for(revoked.attempt) && !allocation.draining)
      allocation.draining = allocation.gave_back = true;
    return_attempt(fold, revoked.attempt, "taken back before it started", at);
  }
  /// True if orders_for() takes this attempt back, so that its return was asked for.
  [[nodiscard]] bool is_asked_for(AttemptId id) const {
    const AttemptRow* attempt = fold.world.attempt(id);
    if (attempt == nullptr || attempt->revoked) return true;
    const TrialRow* trial = fold.world.trial(attempt->trial);
    return trial == nullptr || trial->hidden ||
        state_or_cancelled(fold.world, allocation.sweep) != SweepState::active;
  }
  void operator()(const NodeSeen& node) const {
    fold.world.see_node({node.node, node.host, at, allocation.id, false, node.switches});
  }
  void operator()(const FoundOnNode& finding) const {
    add_event(fold,
        {.allocation = allocation.id,
            .kind = EventKind::finding,
            .detail =
                fmt::format("{}: {}: {}", finding.node, word_of(finding.kind), finding.detail)});
    add_evidence(
        fold, finding.node, {.at = fold.now, .kind = finding.kind, .detail = finding.detail});
    if (finding.kind == EvidenceKind::silent) fold.world.note_silent_on(allocation, finding.node);
  }
  void operator()(const Checked& checked) const {
    take_checked({fold.world, at}, allocation, checked);
  }
  void operator()(const Bye& bye) const {
    allocation.said_bye = true;
    if (allocation.end_reason.empty()) allocation.end_reason = bye.why;
  }
};

/// True for the end of an attempt that is still open. Such a line is no repetition: its records
/// could not be read when the lines behind it were folded, by this daemon or an earlier one.
bool was_set_aside(const World& world, const FromLead& line, AllocationId allocation) {
  const auto* ended = std::get_if<Ended>(&line.body);
  return ended != nullptr && world.index().assigned_to(allocation).open.contains(ended->attempt);
}

}  // namespace

void fold_line(Fold fold, const Policy& policy, AllocationId allocation, const FromLead& line,
    const std::optional<RecordsSummary>& records) {
  const AllocationRow* row = fold.world.allocation(allocation);
  if (row == nullptr) return;
  const bool is_new = line.n > row->from_lead_n;
  if (!is_new && !was_set_aside(fold.world, line, allocation)) return;
  // A beat alone is not worth a transaction.
  if (std::holds_alternative<Beat>(line.body))
    return fold.world.hear_beat(*row, line.n, line.t, fold.now);
  auto edit = fold.world.edit(*row);
  if (is_new) fold.world.hear_beat(*row, line.n, line.t, fold.now);
  std::visit(LineFolder{fold, policy, *edit, line.t, records}, line.body);
}

std::vector<AttemptId> open_attempts(const World& world, AllocationId allocation) {
  const std::set<AttemptId>& open = world.index().assigned_to(allocation).open;
  return {open.begin(), open.end()};
}

namespace {

/// Ending of an attempt whose allocation is gone: from its records, else the reason why the
/// allocation is gone. With --no-kill a job outlives all nodes but its lead's.
Ending ending_of(const RecordsSummary& records, const AllocationRow& allocation,
    const std::string& lead_node, const std::string& why) {
  if (records.error)
    return {.outcome = *records.error, .cause = records.error_message, .source = SaidBy::runner};
  if (records.owns_flaw)
    return {.outcome = Outcome::crashed, .cause = records.flaw, .source = SaidBy::runner};
  const Outcome outcome = meaning_of_end(allocation).value_or(Outcome::lost);
  return {.outcome = outcome,
      .cause = "the allocation ended: " + why,
      .source = allocation.end_outcome ? SaidBy::scheduler : SaidBy::daemon,
      .node = outcome == Outcome::node_failure ? lead_node : ""};
}

}  // namespace

void fold_gone(Fold fold, const Policy& policy, AllocationId allocation,
    const std::vector<Orphan>& orphans, const std::string& why) {
  const AllocationRow* row = fold.world.allocation(allocation);
  if (row == nullptr) return;
  for (const Orphan& orphan : orphans) {
    const AttemptRow& attempt = fold.world.attempts().at(orphan.attempt);
    const bool ran = attempt.state == State::running || orphan.records.result ||
        !orphan.records.unreadable.empty() || !orphan.records.runner_version.empty();
    if (!ran) {
      return_attempt(fold, orphan.attempt,
          "its allocation ended before the attempt started: " + why, last_sign(*row, fold.now));
      continue;
    }
    end_attempt(fold, policy, orphan.attempt,
        ending_of(orphan.records, *row, fold.world.lead_node(allocation), why), orphan.records,
        last_sign(*row, fold.now));
  }
  // A drained probe has told its result already.
  if (!row->probe_of.empty() && row->draining && row->claimed_at == 0) {
    put_off_probe(fold, *row);
  } else if (!row->probe_of.empty()) {
    end_probe(fold, policy, *row, false, why);
  }
  {
    auto edit = fold.world.edit(*row);
    edit->state = State::ended;
    edit->end_reason = why;
    edit->ended_at = fold.now;
  }
  INVARIANT(open_attempts(fold.world, allocation).empty(), "what was in an allocation ends with it",
      allocation, orphans.size());
  fold.world.forget_nodes(*row);
  add_event(fold, {.allocation = allocation, .kind = EventKind::allocation_ended, .detail = why});
}

}  // namespace shardsweep
