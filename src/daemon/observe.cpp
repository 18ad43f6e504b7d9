// SPDX-License-Identifier: Apache-2.0
// Observations: the scheduler's words, the leads' lines, the runners' records.
#include "attempt/abandoned.hpp"
#include "daemon/daemon.hpp"
#include "fleet/alive.hpp"
#include "fleet/allocation.hpp"
#include "fleet/control.hpp"
#include "fleet/fold.hpp"
#include "fleet/silence.hpp"
#include "fleet/starts.hpp"

#include <shardsweep/log.hpp>
#include <shardsweep/records.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// A fault where they are there and can't be read: then nothing may be concluded. What a lead
/// has `packed` is there, whether this host sees it yet or not.
Result<RecordsSummary> read_records(const AttemptPaths& paths, const std::string& nonce,
                                    bool packed) {
  std::error_code ignored;
  const bool pack_is_there = is_there(paths.pack());
  // What this host still sees of the folder may be old: the pack is whole.
  if (packed && !pack_is_there)
    return fault(FaultKind::unavailable, paths.pack().string() + " is not there");
  if (!pack_is_there && !std::filesystem::exists(paths.dir, ignored)) return RecordsSummary{};
  SHARDSWEEP_ASSIGN(const AttemptRecords records, read_attempt_records(paths));
  return summarise_records(records.text, nonce);
}

/// For the nodes: what still carries this number was left. Written again where a crash comes
/// before the commit.
Result<void> list_ended(const Home& home, const AllocationRow& allocation) {
  if (allocation.backend == "local" || allocation.job_id.empty()) return {};
  SHARDSWEEP_ASSIGN(LineWriter list, LineWriter::open(home.dir() / ended_jobs_file));
  return list.append(allocation.job_id.substr(0, allocation.job_id.find(';')), false);
}

/// The lead knows that it was told to stop, the scheduler why: its word is waited for.
bool needs_scheduler(const AllocationRow& allocation, const Ended& ended) {
  return allocation.backend != "local" && ended.outcome == Outcome::preempted &&
         allocation.job_state != JobState::ended;
}

}  // namespace

const Policy& Daemon::policy_of(SweepId sweep) const {
  const auto found = contexts_.find(sweep);
  return found == contexts_.end() ? parts_.policy : found->second.spec.policy;
}

void Daemon::observe() {
  look_at_schedulers();
  end_deferrals();
  // The scheduler first, the files after it: what a job wrote before it ended is then read.
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.state != State::ended) read_lines(allocation);
  }
  dismiss_unsubmitted();
  std::vector<AllocationId> gone;
  for (const auto& [id, allocation] : world_.allocations()) {
    const bool over =
        allocation.state != State::ended && allocation.job_state == JobState::ended;
    if (over && !last_words_may_come(allocation)) gone.push_back(id);
  }
  for (const AllocationId id : gone) {
    if (!submitted_again(world_.allocations().at(id))) bury(id);
  }
}

/// Its job has ended, and its lead has not said its last word. Another host's lines may show
/// late: a job that was over within a minute would look as if it had never started.
bool Daemon::last_words_may_come(const AllocationRow& allocation) {
  if (!home_is_shared_ || allocation.said_bye) return false;
  if (allocation.claimed_at == 0 && allocation.job_id.empty()) return false;  // no job was seen
  const auto channel = channel_of(allocation);
  if (!channel) return false;
  const auto now = parts_.clock.steady();
  if (!(*channel)->job_ended_at) (*channel)->job_ended_at = now;
  return now - *(*channel)->job_ended_at <
         std::chrono::duration<double>(policy_of(allocation.sweep).file_delay_s);
}

/// Told to come back later, and that is now. It is committed before it is submitted again: a
/// daemon that dies in between looks for the job first, like after any other submission.
void Daemon::end_deferrals() {
  const Timestamp now = parts_.clock.now();
  for (const auto& [id, allocation] : world_.allocations()) {
    if (!is_due_again(allocation, now) || !channel_of(allocation)) continue;
    world_.edit(allocation)->submit_after = 0;
  }
}

/// What nobody wants any more is not submitted: never asked for, or told to come back later.
void Daemon::dismiss_unsubmitted() {
  for (const auto& [id, allocation] : world_.allocations()) {
    const bool unwanted = allocation.state != State::ended && allocation.draining &&
                          allocation.submission == Submission::committed;
    if (!unwanted) continue;
    const auto channel = channel_of(allocation);
    if (!channel || (*channel)->submitted) continue;
    auto row = world_.edit(allocation);
    row->job_state = JobState::ended;
    row->end_reason = "no longer needed";
  }
}

void Daemon::look_at_schedulers() {
  const auto now = parts_.clock.steady();
  std::map<std::string, std::vector<AllocationHandle>> handles;
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.state == State::ended) continue;
    // One that this process is about to submit is not missing.
    const auto channel = channel_of(allocation);
    const bool to_be_submitted =
        allocation.submission == Submission::committed && (!channel || !(*channel)->submitted);
    if (!to_be_submitted) {
      (void)scheduler_of(allocation.backend, allocation.sweep);
      handles[scheduler_key(allocation.backend, allocation.sweep)].push_back(
          handle_of(allocation));
    }
  }
  ask_sites();
  for (auto& [key, scheduler] : schedulers_) {
    const auto last = last_look_.find(key);
    const bool look =
        last == last_look_.end() ||
        now - last->second >= std::chrono::duration<double>(look_interval_s(key, *scheduler));
    if (look && !handles[key].empty()) {
      scheduler->answer_within(answer_limit_s(key));
      scheduler->look(handles[key]);
      last_look_[key] = now;
    }
    take_events(key, *scheduler);
  }
}

void Daemon::take_events(const std::string& key, Scheduler& scheduler) {
  for (const SchedulerEvent& event : scheduler.poll()) {
    note_event(key, event);
    if (const auto* site = std::get_if<SiteSeen>(&event)) {
      take_site(key, *site);
    } else {
      take_event(event);
    }
  }
}

void Daemon::take_site(const std::string& key, const SiteSeen& site) {
  const auto known = sites_.find(key);
  if (known != sites_.end() && known->second == site.facts) return;
  sites_[key] = site.facts;
  ++outside_;
}

/// What the limits of those who wait depend on; nobody else's.
void Daemon::ask_sites() {
  const std::set<SweepId> open = open_sweeps(world_);
  std::map<Scheduler*, SiteQuestions> questions;
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.backend == "local" || sweep.state != SweepState::active) continue;
    if (!open.contains(id) || !context_of(sweep)) continue;
    const Policy& policy = policy_of(sweep.id);
    const bool yields = static_cast<Yield>(policy.yield) != Yield::never;
    auto [entry, fresh] =
        questions.try_emplace(&scheduler_of(sweep.backend, sweep.id),
                              SiteQuestions{.others_s = policy.look_others_s,
                                            .answer_limit_s = policy.query_limit_s});
    SiteQuestions& all = entry->second;
    all.partitions = all.partitions || policy.partition_share < 100;
    all.others = all.others || yields;
    all.others_s = std::min(all.others_s, policy.look_others_s);
    // The first submission waits for it.
    all.answer_limit_s = std::min({all.answer_limit_s, policy.query_limit_s, 10.0});
  }
  for (const auto& [key, scheduler] : schedulers_) {
    const auto asked = questions.find(scheduler.get());
    scheduler->ask(asked == questions.end() ? std::nullopt : std::optional(asked->second));
  }
}

/// Sweeps that share a scheduler share its answers: who waits least says how long.
double Daemon::answer_limit_s(const std::string& key) const {
  std::optional<double> limit_s;
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (scheduler_key(sweep.backend, sweep.id) != key || sweep.state != SweepState::active)
      continue;
    const double own_s = policy_of(sweep.id).query_limit_s;
    limit_s = std::min(limit_s.value_or(own_s), own_s);
  }
  return limit_s.value_or(parts_.policy.query_limit_s);
}

/// What costs the other side is asked rarely, but the end of an allocation whose lead has left
/// is worth knowing: others wait for its place.
double Daemon::look_interval_s(const std::string& key, const Scheduler& scheduler) const {
  constexpr double leaving_s = 2;
  constexpr double leaving_limit_s = 60;  // an epilog that takes longer may take for ever
  double interval_s = scheduler.look_interval_s();
  for (const auto& [id, sweep] : world_.sweeps()) {
    const bool asks = sweep.backend != "local" &&
                      scheduler_key(sweep.backend, sweep.id) == key &&
                      sweep.state == SweepState::active;
    if (asks) interval_s = std::min(interval_s, policy_of(sweep.id).look_s);
  }
  const bool leaving = std::any_of(
      world_.allocations().begin(), world_.allocations().end(), [&](const auto& entry) {
        const AllocationRow& row = entry.second;
        return scheduler_key(row.backend, row.sweep) == key && row.state != State::ended &&
               row.said_bye && silence_s(row, parts_.clock.now()) < leaving_limit_s;
      });
  return leaving ? std::min(interval_s, leaving_s) : interval_s;
}

void Daemon::take_event(const SchedulerEvent& event) {
  if (const auto* failed = std::get_if<LookFailed>(&event)) {
    log_warning(failed->why);
    watcher_.look_failed(failed->why, parts_.clock.now());
    return;
  }
  if (std::holds_alternative<JobSeen>(event) || std::holds_alternative<JobNotSeen>(event))
    watcher_.look_succeeded(parts_.clock.now());
  fold_scheduler({world_, parts_.clock.now()}, event);
  const auto* deferred = std::get_if<SubmitDeferred>(&event);
  if (deferred == nullptr) return;
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.token != deferred->token) continue;
    const auto channel = channel_of(allocation);
    if (!channel) continue;
    (*channel)->submitted = false;
    log_info(fmt::format("{} is submitted later: {}", allocation.job_name, deferred->why));
  }
}

/// Two clean looks have found no job of it: nobody has started it, so it is submitted again.
bool Daemon::submitted_again(const AllocationRow& allocation) {
  constexpr int most_resubmissions = 4;
  if (!never_seen(allocation) || allocation.draining) return false;
  const auto channel = channel_of(allocation);
  if (!channel || allocation.resubmissions >= most_resubmissions) return false;
  std::error_code ignored;
  // Its lead has been there, whatever has become of its job.
  if (std::filesystem::exists(AllocationPaths{allocation.dir}.claim(), ignored)) return false;
  submit_again({world_, parts_.clock.now()}, allocation);
  (*channel)->submitted = false;
  return true;
}

void Daemon::read_lines(const AllocationRow& allocation) {
  const auto found = channel_of(allocation);
  if (!found) return;
  Channel& channel = **found;
  const bool first = !allocation.heard_at;
  auto lines = channel.reader.look();
  if (!lines) {
    log_warning(fmt::format("{}: {}", allocation.job_name, lines.error().what));
    return;
  }
  channel.unread.insert(channel.unread.end(), std::make_move_iterator(lines->begin()),
                        std::make_move_iterator(lines->end()));
  while (!channel.unread.empty() && read_line(allocation, channel))
    channel.unread.pop_front();
  // Beats are stored once per process: one pass per process (`tick`) must not hear them again.
  if (first && allocation.heard_at) world_.record_beats(allocation);
  // Where lines wait for the scheduler's word, the lead has spoken.
  // A lead that can't write is not silent.
  const Timestamp now = parts_.clock.now();
  if (channel.unread.empty() && !storage_fails()) {
    judge_silence({world_, now}, policy_of(allocation.sweep), allocation);
  } else {
    world_.listen_anew(allocation, now);
  }
}

/// Tried again, ever more rarely, for longer than an NFS client believes what it knows: what
/// can't be read must not hold up its lane for ever. While nothing at all can be stored there
/// is no limit.
std::optional<RecordsSummary> Daemon::patient_records(const AttemptPaths& paths,
                                                      const std::string& nonce, bool packed) {
  using namespace std::chrono_literals;
  constexpr auto first_pause = 500ms;
  constexpr auto longest_pause = 10s;
  constexpr auto limit = 90s;
  const auto now = parts_.clock.steady();
  const auto known = unreadable_.find(nonce);
  const auto nothing = [](const std::string& why) {
    RecordsSummary summary;
    summary.unreadable = why;
    return summary;
  };
  if (known != unreadable_.end()) {
    if (!known->second.given_up.empty()) return nothing(known->second.given_up);
    if (now < known->second.again) return std::nullopt;
  }
  auto read = read_records(paths, nonce, packed);
  if (read) {
    unreadable_.erase(nonce);
    return std::move(*read);
  }
  storage_doubted_ = true;
  Unreadable& one =
      unreadable_.try_emplace(nonce, Unreadable{now, now, first_pause}).first->second;
  if (storage_fails()) one.since = now;
  if (now - one.since < limit) {
    if (one.again == one.since) log_warning(read.error().what + ": tried again for 90 s");
    one.again = now + one.pause;
    one.pause = std::min<std::chrono::milliseconds>(one.pause * 2, longest_pause);
    return std::nullopt;
  }
  one.given_up = "its folder can't be read: " + read.error().what;
  log_warning(one.given_up);
  return nothing(one.given_up);
}

/// Folds the first unread line; false where that has to wait.
bool Daemon::read_line(const AllocationRow& allocation, Channel& channel) {
  const auto line = decode_from_lead(channel.unread.front());
  if (!line) {
    log_warning(fmt::format("{}: {}", allocation.job_name, line.error().what));
    return true;
  }
  std::optional<RecordsSummary> records;
  if (const auto* ended = std::get_if<Ended>(&line->body)) {
    if (needs_scheduler(allocation, *ended)) return false;
    const auto attempt = world_.attempts().find(ended->attempt);
    if (const auto time = control_time(allocation, ended->attempt)) {
      records = patient_records(control_paths(allocation, *time),
                                control_nonce(allocation, *time), !ended->pack.empty());
      if (!records) return false;
    }
    if (attempt != world_.attempts().end() && attempt->second.state != State::ended) {
      records =
          patient_records({attempt->second.dir}, attempt->second.nonce, !ended->pack.empty());
      if (!records) return false;
      judge_result(attempt->second, *records);
    }
  }
  fold_line({world_, parts_.clock.now()}, policy_of(allocation.sweep), allocation.id, *line,
            records);
  if (const auto* revoked = std::get_if<Revoked>(&line->body)) remove_unused(revoked->attempt);
  return true;
}

/// What was written to start an attempt that never did.
void Daemon::remove_unused(AttemptId id) {
  const auto attempt = world_.attempts().find(id);
  std::error_code ignored;
  if (attempt != world_.attempts().end())
    std::filesystem::remove_all(attempt->second.dir, ignored);
}

void Daemon::bury(AllocationId id) {
  const AllocationRow& allocation = world_.allocations().at(id);
  std::vector<Orphan> orphans;
  for (const AttemptId attempt : open_attempts(world_, id)) {
    const AttemptRow& row = world_.attempts().at(attempt);
    auto records = patient_records({row.dir}, row.nonce, false);
    if (!records) return;
    judge_result(world_.attempts().at(attempt), *records);
    orphans.push_back({attempt, std::move(*records)});
  }
  dismiss(allocation, orphans);
  if (const auto listed = list_ended(parts_.home, allocation); !listed)
    log_warning(listed.error().what);
  std::string why = allocation.end_reason.empty() ? "its job ended" : allocation.end_reason;
  if (allocation.claimed_at == 0) why = "never started: " + why;
  log_info(fmt::format("{} is over: {}", allocation.job_name, why));
  const Policy& policy = policy_of(allocation.sweep);
  // A probe that does not start says something about its node alone.
  std::optional<std::string> paused;
  // What can't be stored says nothing about the site.
  if (allocation.probe_of.empty() && !storage_fails())
    paused = count_start({world_, parts_.clock.now()}, policy, allocation, why,
                         AllocationPaths{allocation.dir}.log().string());
  if (paused) {
    log_error(fmt::format("{} {}", allocation.job_name, *paused));
  }
  fold_gone({world_, parts_.clock.now()}, policy, id, orphans, why);
  // The lead would have packed them.
  for (const Orphan& orphan : orphans) {
    const AttemptPaths paths{world_.attempts().at(orphan.attempt).dir};
    std::error_code ignored;
    if (!std::filesystem::exists(paths.dir, ignored)) continue;
    if (const auto packed = pack_attempt(paths, policy.keep_log_bytes); !packed) {
      log_warning(packed.error().what);
    }
  }
}

/// A lead that wakes up late shall find nothing to do. Where that can't be written its folder
/// is gone, and so is what a lead would read.
void Daemon::dismiss(const AllocationRow& allocation, const std::vector<Orphan>& orphans) {
  const auto channel = channel_of(allocation);
  if (!channel || (*channel)->drained) return;
  Result<void> said;
  for (const Orphan& orphan : orphans) {
    if (said) said = send(**channel, Revoke{orphan.attempt});
    // A lead whose batch host Slurm has given up lives on, on nodes that others get now.
    if (said) said = send(**channel, Cancel{orphan.attempt, "its allocation is over"});
  }
  if (said) said = send(**channel, Drain{});
  if (!said) log_warning(fmt::format("{}: {}", allocation.job_name, said.error().what));
  (*channel)->drained = true;
}

}  // namespace shardsweep
