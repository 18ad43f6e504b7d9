// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs.hpp"

#include "attempt/abandoned.hpp"
#include "fleet/allocation.hpp"
#include "fleet/fold.hpp"
#include "fleet/starts.hpp"

#include <shardsweep/copied.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace shardsweep {
namespace {

/// Lists the job as ended, so that nodes end processes with its number. A crash before the commit
/// makes it write the line twice.
Result<void> list_ended(const Home& home, const AllocationRow& allocation) {
  if (allocation.backend == Backend::local || allocation.job_id.empty()) return {};
  SHARDSWEEP_ASSIGN(LineWriter list, LineWriter::open(home.dir() / ended_jobs_file));
  return list.append(allocation.job_id.substr(0, allocation.job_id.find(';')), false);
}

}  // namespace

AllocationHandle handle_of(const AllocationRow& row, Timestamp now) {
  return {.token = row.token,
      .job_name = row.job_name,
      .job_id = row.job_id,
      .dir = row.dir,
      .created_at = row.created_at,
      .claimed = row.claimed_at != 0,
      .waits = row.job_state == JobState::pending,
      .missing = row.missing,
      // Clamp: the login node's clock may have been set back.
      .missing_for_s = std::max(0.0, to_seconds(now - row.missing_since))};
}

Sites::Handles Jobs::to_look_for() {
  Sites::Handles handles;
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.state == State::ended || is_outside(allocation)) continue;
    // An allocation that this process is about to submit is not missing.
    const auto channel = channels_.of(allocation);
    const bool to_be_submitted =
        allocation.submission == Submission::committed && (!channel || !(*channel)->submitted);
    if (to_be_submitted) continue;
    (void)sites_.of(allocation.backend, allocation.sweep);
    handles[sites_.key_of(allocation.backend, allocation.sweep)].push_back(
        handle_of(allocation, parts_.clock.now()));
  }
  return handles;
}

/// Sweep of the event's allocation; 0: none.
SweepId Jobs::sweep_in(const SchedulerEvent& event) const {
  return std::visit(
      [this](const auto& one) -> SweepId {
        if constexpr (requires { one.token; }) {
          const AllocationRow* row = world_.allocation_of(one.token);
          return row == nullptr ? 0 : row->sweep;
        } else {
          return 0;
        }
      },
      event);
}

void Jobs::take(const SchedulerEvent& event) {
  if (std::holds_alternative<SiteSeen>(event)) return;
  if (const auto* failed = std::get_if<LookFailed>(&event)) {
    log_warning(failed->why);
    notifying_.look_failed(failed->why);
    return;
  }
  if (std::holds_alternative<JobSeen>(event) || std::holds_alternative<JobNotSeen>(event))
    notifying_.look_succeeded();
  if (std::holds_alternative<SubmitAccepted>(event)) fail_point("daemon.accepted");
  in_work_of(sweep_in(event), [&] { fold_scheduler({world_, parts_.clock.now()}, event); });
  const auto* deferred = std::get_if<SubmitDeferred>(&event);
  if (deferred == nullptr) return;
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.token != deferred->token) continue;
    const auto channel = channels_.of(allocation);
    if (!channel) continue;
    (*channel)->submitted = false;
    log_info(fmt::format("{} is submitted later: {}", allocation.job_name, deferred->why));
  }
}

/// Told to come back later, and that is now. It is committed before it is submitted again: a
/// daemon that dies in between looks for the job first, like after any other submission.
void Jobs::end_deferrals() {
  const Timestamp now = parts_.clock.now();
  for (const auto& [id, allocation] : world_.allocations()) {
    if (!is_due_again(allocation, now) || !channels_.of(allocation)) continue;
    world_.edit(allocation)->submit_after = 0;
  }
}

/// Ends allocations that are no longer wanted and were never submitted, or are to be submitted
/// again later.
void Jobs::dismiss_unsubmitted() {
  for (const auto& [id, allocation] : world_.allocations()) {
    // Close also jobs of a sweep that is held apart: it must not keep others from this machine.
    const bool nobodys = allocation.draining || sweeps_.is_apart(allocation.sweep);
    const bool unwanted = allocation.state != State::ended && nobodys &&
        allocation.job_state != JobState::ended && allocation.submission == Submission::committed;
    if (!unwanted) continue;
    const auto channel = channels_.of(allocation);
    if (!channel || (*channel)->submitted) continue;
    auto row = world_.edit(allocation);
    row->job_state = JobState::ended;
    row->end_reason = "no longer needed";
  }
}

void Jobs::close_gone() {
  std::vector<AllocationId> gone;
  for (const auto& [id, allocation] : world_.allocations()) {
    const bool over = allocation.state != State::ended && allocation.job_state == JobState::ended;
    if (over && !last_words_may_come(allocation) && !waits_for_its_files(allocation))
      gone.push_back(id);
  }
  for (const AllocationId id : gone) {
    const AllocationRow& row = world_.allocations().at(id);
    if (sweeps_.is_apart(row.sweep)) continue;
    in_work_of(row.sweep, [&] {
      if (!submitted_again(row)) close(id);
    });
  }
}

/// True while the last lines of a lead may still come after its job has ended. Another host's lines
/// may show late: a job that was over within a minute would look as if it had never started.
bool Jobs::last_words_may_come(const AllocationRow& allocation) {
  if (!home_is_shared_ || allocation.said_bye) return false;
  if (allocation.claimed_at == 0 && allocation.job_id.empty()) return false;  // no job was seen
  const auto channel = channels_.of(allocation);
  if (!channel) return false;
  const auto now = parts_.clock.steady();
  if (!(*channel)->job_ended_at) (*channel)->job_ended_at = now;
  return now - *(*channel)->job_ended_at <
      std::chrono::duration<double>(sweeps_.policy_of(allocation.sweep).file_delay_s);
}

/// True while an allocation's files can't be read, for at most the time that records may be late.
/// Nothing is concluded meanwhile.
bool Jobs::waits_for_its_files(const AllocationRow& allocation) {
  const auto channel = channels_.of(allocation);
  const auto claim = look_for(AllocationPaths{allocation.dir}.claim());
  if (channel && (*channel)->is_readable && claim) {
    unreadable_.erase(allocation.id);
    return false;
  }
  health_.doubt_storage();
  const auto now = parts_.clock.steady();
  auto& since = unreadable_.try_emplace(allocation.id, now).first->second;
  if (health_.storage_fails()) since = now;
  const double limit_s = sweeps_.policy_of(allocation.sweep).records_limit_s;
  return now - since < std::chrono::duration<double>(limit_s);
}

/// Two clean looks have found no job of it: nobody has started it, so it is submitted again.
bool Jobs::submitted_again(const AllocationRow& allocation) {
  constexpr int most_resubmissions = 4;
  if (!never_seen(allocation) || allocation.draining) return false;
  const auto channel = channels_.of(allocation);
  if (!channel || allocation.resubmissions >= most_resubmissions) return false;
  // A claim proves that a lead ran, whatever became of its job.
  if (look_for(AllocationPaths{allocation.dir}.claim()).value_or(true)) return false;
  submit_again({world_, parts_.clock.now()}, allocation);
  (*channel)->submitted = false;
  return true;
}

void Jobs::close(AllocationId id) {
  const AllocationRow& allocation = world_.allocations().at(id);
  std::vector<Orphan> orphans;
  for (const AttemptId attempt : open_attempts(world_, id)) {
    const AttemptRow& row = world_.attempts().at(attempt);
    auto records = records_.read({row.dir}, row.nonce, false, allocation.sweep);
    if (!records) return;
    records_.judge(world_.attempts().at(attempt), *records);
    orphans.push_back({attempt, std::move(*records)});
  }
  unreadable_.erase(id);
  leads_.dismiss(allocation, orphans);
  if (const auto listed = list_ended(parts_.home, allocation); !listed)
    log_warning(listed.error().what);
  std::string why = allocation.end_reason.empty() ? "its job ended" : allocation.end_reason;
  if (allocation.claimed_at == 0) why = "never started: " + why;
  log_info(fmt::format("{} is over: {}", allocation.job_name, why));
  const Policy& policy = sweeps_.policy_of(allocation.sweep);
  // A probe that does not start says something only about its node.
  std::optional<std::string> paused;
  // A storage fault says nothing about the site.
  if (allocation.probe_of.empty() && !health_.storage_fails())
    paused = count_start({world_, parts_.clock.now()}, policy, allocation, why,
        AllocationPaths{allocation.dir}.log().string());
  if (paused) {
    log_error(fmt::format("{} {}", allocation.job_name, *paused));
  }
  fold_gone({world_, parts_.clock.now()}, policy, id, orphans, why);
  for (const Orphan& orphan : orphans)
    to_pack_.push_back({{world_.attempts().at(orphan.attempt).dir}, policy.attempt.keep_log_bytes});
}

std::vector<std::filesystem::path> Jobs::live_folders() const {
  std::vector<std::filesystem::path> folders;
  for (const auto& [id, allocation] : world_.allocations())
    if (live(allocation) && !is_outside(allocation)) folders.emplace_back(allocation.dir);
  return folders;
}

void Jobs::forget_others() {
  std::vector<std::pair<AllocationId, std::string>> forgotten;
  for (const auto& [id, allocation] : world_.allocations()) {
    if (!live(allocation) || is_outside(allocation)) continue;
    if (const auto original = other_database(parts_.home, allocation.dir))
      forgotten.emplace_back(id,
          fmt::format("its job belongs to the database {}, of which this one is a copy",
              original->string()));
  }
  for (const auto& [id, why] : forgotten) {
    const AllocationRow& allocation = world_.allocations().at(id);
    std::vector<Orphan> orphans;
    for (const AttemptId attempt : open_attempts(world_, id))
      orphans.push_back({attempt, {}});
    in_work_of(allocation.sweep, [&, id = id, &why = why] {
      fold_gone(
          {world_, parts_.clock.now()}, sweeps_.policy_of(allocation.sweep), id, orphans, why);
    });
  }
}

void Jobs::pack_closed() {
  for (const auto& [paths, keep_bytes] : std::exchange(to_pack_, {})) {
    if (!is_there(paths.dir)) continue;
    fail_point("daemon.pack");
    if (const auto packed = pack_attempt(paths, keep_bytes); !packed) {
      log_warning(packed.error().what);
    }
    fail_point("daemon.packed");
  }
}

}  // namespace shardsweep
