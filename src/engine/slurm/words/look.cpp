// SPDX-License-Identifier: Apache-2.0
// The queue says what is, accounting says who ended a job and how; neither is believed about
// what the other knows better. Jobs are matched by name alone. If several have one name, the
// one that holds the claim counts, else the oldest that lives: the others gave way or will.
// That there is no job is believed after two clean looks, as a submission may be on its way
// during the first.
//
// Decision: An unanswered submission is looked up by its job name in squeue and sacct, and
// submitted again under the same token after two clean looks. A failed look proves nothing.
#include "slurm/words/look.hpp"

#include "text/node_list.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace shardsweep::slurm {
namespace {

constexpr int clean_looks = 2;
/// The lead's exit code if another one has the claim, or Slurm has started the job again.
constexpr int exit_not_claimed = 75;
/// How Slurm ends a job that must not be requeued when its launch fails.
constexpr const char* prolog_hint =
    ": by root, or by Slurm because the prolog failed on its node ('sinfo -R')";

/// One job, by what both lists say of it.
struct ListedJob {
  const Job* job = nullptr;  ///< the queue's row if there is one
  JobReading reading;
  int exit_code = 0;
};

/// Numbers of jobs grow with time, as do those of an array's elements: 999_10 before 1000. Equal
/// ones are told apart by their texts.
struct Older {
  static auto order_of(const std::string& id) {
    const char* const end = id.data() + id.size();
    std::uint64_t number = 0;
    std::int64_t index = -1;
    const char* rest = std::from_chars(id.data(), end, number).ptr;
    if (rest != end && *rest == '_') (void)std::from_chars(rest + 1, end, index);
    return std::tuple(number, index, std::string_view(id));
  }
  bool operator()(const std::string& a, const std::string& b) const {
    return order_of(a) < order_of(b);
  }
};
using KnownJobs = std::map<std::string, ListedJob, Older>;

/// Matches by name alone: a controller that lost its last seconds gives the same id to another job.
bool belongs(const Job& job, const AllocationHandle& handle) {
  return job.name == handle.job_name;
}

/// A controller that starts without its state has its waiting jobs cancelled in accounting, and
/// by nobody.
bool was_lost_waiting(const Job& job, const JobReading& reading) {
  return job.names_canceller && job.state == "CANCELLED" && !reading.cancelled_by &&
      nodes_in(job.nodes).empty();
}

/// Accounting calls a job requeued, pending or running for ever that was cancelled while it was
/// put back into the queue, or that a controller has lost: what the queue does not have is not
/// there.
bool is_left_over(const Job& job, const JobReading& reading, const KnownJobs& known) {
  if (job.source == Source::queue) return false;
  if (reading.state == JobState::ended && !was_lost_waiting(job, reading)) return false;
  const auto had = known.find(job.id);
  return had == known.end() || had->second.job->source == Source::accounting;
}

KnownJobs jobs_of(
    const AllocationHandle& handle, const std::vector<Job>& jobs, std::int64_t own_uid) {
  KnownJobs known;
  for (const Job& job : jobs) {
    if (!belongs(job, handle)) continue;
    const JobReading reading = read_state(job, own_uid);
    if (is_left_over(job, reading, known)) continue;
    auto [entry, fresh] = known.try_emplace(job.id, ListedJob{&job, reading, job.exit_code});
    if (fresh || job.source == Source::queue) continue;
    ListedJob& had = entry->second;
    // A job that went on without a node of it has two rows: RESIZING, then its end.
    if (had.job->source == Source::accounting) {
      had = ListedJob{&job, reading, job.exit_code};
      continue;
    }
    // The queue says what is; accounting adds who and how, once both agree that it is over.
    if (had.reading.state != JobState::ended || reading.state != JobState::ended) continue;
    had = ListedJob{&job, reading, job.exit_code};
  }
  return known;
}

bool live(const ListedJob& known) {
  return known.reading.state != JobState::ended;
}

/// The one that counts: who holds the claim or was named to us, else the oldest that lives,
/// else the last that has ended.
const ListedJob* choose(const KnownJobs& known, const std::string& job_id) {
  const auto first_live = std::find_if(
      known.begin(), known.end(), [](const auto& entry) { return live(entry.second); });
  if (const auto named = known.find(job_id); named != known.end()) {
    const bool gave_way = !live(named->second) && named->second.exit_code == exit_not_claimed;
    if (!gave_way || first_live == known.end()) return &named->second;
  }
  if (first_live != known.end()) return &first_live->second;
  return known.empty() ? nullptr : &known.rbegin()->second;
}

SchedulerEvent seen(const AllocationHandle& handle, const ListedJob& known, std::int64_t own_uid) {
  JobSeen event;
  event.token = handle.token;
  event.job_id = known.job->id;
  event.state = known.reading.state;
  event.detail = describe(*known.job, own_uid);
  event.outcome = known.reading.outcome;
  event.nodes = known.job->nodes;
  event.after_claim = handle.claimed;
  event.hold = known.reading.hold;
  if (known.reading.cancelled_by == 0 && !handle.claimed) event.detail += prolog_hint;
  if (known.reading.state == JobState::pending) {
    event.advice = explain_reason(known.job->reason);
  }
  return event;
}

/// One more look without it; true if it has been missed for long enough.
bool missed_again(
    const AllocationHandle& handle, Missing what, const LookContext& context, MissedJobs& missed) {
  Absence& miss = missed[handle.token];
  if (miss.looks == 0 && handle.missing == what)
    miss = {what, 1, context.now_s - handle.missing_for_s};
  if (miss.what != what) miss = {what, 0, context.now_s};
  ++miss.looks;
  return miss.looks >= clean_looks && context.now_s - miss.since_s >= context.settle_s;
}

void count_miss(const AllocationHandle& handle, const LookContext& context, MissedJobs& missed,
    LookResult& result) {
  if (!context.complete || context.on_its_way.count(handle.token) != 0) return;
  if (!missed_again(handle, Missing::job, context, missed)) {
    result.events.emplace_back(JobMissed{handle.token, Missing::job});
    return;
  }
  result.events.emplace_back(JobNotSeen{handle.token});
  missed.erase(handle.token);
}

/// True if the job is over, but accounting has still to tell who cancelled it or how it failed,
/// which decides what comes of it.
bool awaits_account(const AllocationHandle& handle, const ListedJob& known,
    const LookContext& context, MissedJobs& missed) {
  return context.accounting && known.reading.unexplained &&
      !missed_again(handle, Missing::account, context, missed);
}

}  // namespace

std::vector<AllocationHandle> to_be_accounted(
    const std::vector<AllocationHandle>& handles, const std::vector<Job>& queue) {
  std::vector<AllocationHandle> open;
  for (const AllocationHandle& handle : handles) {
    const KnownJobs known = jobs_of(handle, queue, -1);
    const ListedJob* chosen = choose(known, handle.job_id);
    if (chosen == nullptr || chosen->reading.state == JobState::ended) open.push_back(handle);
  }
  return open;
}

void mark_own_cancel(JobSeen& seen) {
  if (seen.outcome != Outcome::reaped && seen.outcome != Outcome::cancelled) return;
  seen.outcome = Outcome::cancelled;
  seen.own_cancel = true;
  seen.detail = "cancelled by shardsweep";
}

LookResult conclude(const std::vector<AllocationHandle>& handles, const std::vector<Job>& jobs,
    const LookContext& context, MissedJobs& missed) {
  LookResult result;
  for (const AllocationHandle& handle : handles) {
    const KnownJobs known = jobs_of(handle, jobs, context.own_uid);
    const ListedJob* chosen = choose(known, handle.job_id);
    if (chosen == nullptr) {
      count_miss(handle, context, missed, result);
      continue;
    }
    if (awaits_account(handle, *chosen, context, missed)) {
      result.events.emplace_back(JobMissed{handle.token, Missing::account});
      continue;
    }
    missed.erase(handle.token);
    result.events.push_back(seen(handle, *chosen, context.own_uid));
    if (chosen->reading.stuck) result.cancel.push_back({chosen->job->id, handle.job_name});
    for (const auto& [id, other] : known) {
      if (&other == chosen || other.reading.state != JobState::pending) continue;
      result.cancel.push_back({id, handle.job_name});
      result.events.emplace_back(JobDuplicate{handle.token, id});
    }
  }
  return result;
}

}  // namespace shardsweep::slurm
