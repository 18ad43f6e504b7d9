// SPDX-License-Identifier: Apache-2.0
// From what squeue and sacct list to what is known of each allocation. One allocation may have
// no job, one, or (after an answer of sbatch that was lost, or by somebody's hand) several.
//
// Decision: A job that a look calls waiting is cancelled only as long as it waits (`scancel
// --state=PENDING`; over REST after one more question). A job that has started meanwhile is not
// hit.
#pragma once

#include "slurm/words/job.hpp"

#include <shardsweep/scheduler.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace shardsweep::slurm {

/// Facts that a look needs besides the lists.
struct LookContext {
  std::int64_t own_uid = 0;
  double now_s = 0;         ///< monotonic
  double settle_s = 10;     ///< how long an answer may be on its way: Slurm's MessageTimeout
  bool accounting = false;  ///< true: there is accounting, worth waiting for what only it tells
  bool complete = true;     ///< false: it has not answered; who is in no list is unknown
  /// Tokens whose submission has not been answered yet: in no list, and not missing.
  std::set<std::string> on_its_way{};
};

/// Jobs that looks have not found, by token. One look is not enough: between sbatch's answer and
/// the lists, or between squeue and sacct, a job may be in neither. Accounting also tells of an end
/// later than the queue. If a token has no entry, its handle says what is known from before.
struct Absence {
  Missing what = Missing::nothing;
  int looks = 0;
  double since_s = 0;
};
using MissedJobs = std::map<std::string, Absence>;

/// An id alone may have become another job's.
struct NamedJob {
  std::string id;
  std::string name;
  friend bool operator==(const NamedJob&, const NamedJob&) = default;
};

/// Slurm says that a job was cancelled, and shardsweep asked for that.
void mark_own_cancel(JobSeen& seen);

struct LookResult {
  std::vector<SchedulerEvent> events;
  /// Duplicates, and jobs that can never start: to be cancelled as long as they wait. A
  /// duplicate that runs finds the claim taken and ends by itself, or has it.
  std::vector<NamedJob> cancel;
};

/// Handles about which squeue alone does not tell enough: not listed, or cancelled by nobody
/// knows whom.
[[nodiscard]] std::vector<AllocationHandle> to_be_accounted(
    const std::vector<AllocationHandle>& handles, const std::vector<Job>& queue);

/// `jobs`: of the queue, then of accounting. `missed` is carried from look to look.
[[nodiscard]] LookResult conclude(const std::vector<AllocationHandle>& handles,
    const std::vector<Job>& jobs, const LookContext& context, MissedJobs& missed);

}  // namespace shardsweep::slurm
