// SPDX-License-Identifier: Apache-2.0
// A Slurm that a test plays: jobs and their leads, what sbatch answers, what squeue and sacct
// list. What a look means is concluded by the product's own code. The jobs outlive daemons.
#pragma once

#include "slurm/words/look.hpp"
#include "unit/daemon/played_allocation.hpp"
#include "unit/daemon/played_cluster.hpp"
#include "unit/daemon/played_lead.hpp"

#include <shardsweep/scheduler.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// What becomes of a submission.
enum class Sbatch : std::uint8_t {
  accepts,
  late,         ///< accepts; the answer takes `late_s`
  lost,         ///< accepts; the daemon is told that it may have
  unseen,       ///< as lost, and for a while no list has the job
  unsent,       ///< does not arrive; the daemon is told the same
  refuses,      ///< for good
  lacks_nodes,  ///< without those that the job excludes
  defers,       ///< a limit that passes
  full,         ///< a limit that may be the job's own
};

struct PlayedJob {
  std::string id;
  std::string token;
  std::string name;
  std::filesystem::path dir;
  std::string state = "PENDING";  ///< as sacct says it
  std::string reason = "Priority";
  std::string nodes;
  int exit_code = 0;
  Timestamp ended_at = 0;
  Timestamp clock_ahead = 0;  ///< of its nodes, before the true time
  bool hidden = false;        ///< in no list
  bool unseen = false;        ///< the same, until it shows
  bool silent = false;        ///< its lead is stopped
  bool was_silent = false;
  bool suspended = false;  ///< silent, and Slurm says so
  bool requeued = false;
  bool lead_alive = false;
  bool in_black_hole = false;               ///< on a node on which no lead starts
  std::optional<PlayedLead> lead{};         ///< whose lines a test says
  std::unique_ptr<PlayedAllocation> run{};  ///< or which goes on by itself
  std::string ending{};                     ///< it was told to end; its state then
  Timestamp kill_at = 0;                    ///< if it has not ended by itself

  [[nodiscard]] bool pends() const { return state == "PENDING"; }
  [[nodiscard]] bool runs() const { return state == "RUNNING"; }
  [[nodiscard]] bool over() const { return !pends() && !runs(); }
  [[nodiscard]] bool claimed() const {
    return run ? run->claimed() : lead.has_value() && lead->claimed();
  }
};

class PlayedSlurm {
 public:
  explicit PlayedSlurm(ManualClock& clock) : clock_(clock) {}

  /// For the submissions to come, in order; afterwards all are accepted.
  std::deque<Sbatch> answers;
  double late_s = 30;
  bool reachable = true;       ///< false: every look fails
  bool lists_nothing = false;  ///< squeue and sacct succeed and print nothing
  bool accounting = true;
  bool names_nodes = false;  ///< leads say which nodes they have
  double look_takes_s = 0.5;
  double accounting_lag_s = 0;
  double look_interval_s = 10;
  bool tells_site = false;          ///< what limits need to know of it
  std::int32_t others_waiting = 0;  ///< jobs of others, for the same nodes
  std::size_t black_hole = 0;       ///< number of a node on which no lead starts; 0: none

  std::deque<PlayedJob> jobs;
  PlayedAttempts attempts;
  /// Makes what runs in a job that has got its nodes; none: a test says its lead's lines.
  std::function<std::unique_ptr<PlayedAllocation>(
      const PlayedJob& job, std::vector<std::string> nodes)>
      make_run;
  /// Deliberate mistakes: with what the daemon is told, and with what it asks for.
  std::function<void(std::vector<SchedulerEvent>&)> mistake_in_events;
  std::function<int(const AllocationRequest&)> mistake_in_submit;  ///< how often
  /// Told of each answer that the daemon gets.
  std::function<void(const SchedulerEvent&)> answered;
  /// What no daemon may do, as sentences.
  std::vector<std::string> violations;
  struct Calls {
    std::int64_t submissions = 0;
    std::int64_t looks = 0;
    std::int64_t cancels = 0;
  };
  Calls calls;

  [[nodiscard]] std::unique_ptr<Scheduler> scheduler(Fate& fate);
  [[nodiscard]] PlayedJob* job_of(const std::string& token);
  /// A lead is alive, whatever Slurm says, or a job is not over.
  [[nodiscard]] bool anything_alive() const;

  // ---- what happens to a job
  /// Gets nodes, other than those that its script excludes.
  void start(PlayedJob& job, std::mt19937_64& random);
  void finish(PlayedJob& job, const std::string& state, int exit_code = 0);
  void requeue(PlayedJob& job);
  /// What runs by itself goes on; jobs that have come to their end are over.
  void pass();
  /// As scancel does: a lead that runs says so and leaves.
  void cancel(PlayedJob& job, const std::string& by);
  [[nodiscard]] Timestamp lead_time(const PlayedJob& job) const {
    return clock_.true_time() + job.clock_ahead;
  }

 private:
  friend class PlayedSlurmScheduler;
  struct Submitted {
    SchedulerEvent event;
    std::chrono::steady_clock::time_point due;
  };
  [[nodiscard]] Submitted submit(const AllocationRequest& request);
  void check_submission(const AllocationRequest& request);
  /// Names of those that the script asks for, beginning with number `first`; fewer: there are
  /// too few.
  [[nodiscard]] static std::vector<std::string> nodes_for(
      const std::filesystem::path& script, std::size_t first);
  void cancel_for_daemon(const slurm::NamedJob& named, bool only_pending);
  [[nodiscard]] std::vector<slurm::Job> queue() const;
  [[nodiscard]] std::vector<slurm::Job> accounts() const;

  ManualClock& clock_;
  int ids_ = 0;
  /// Tokens of which a daemon was told that no job of them is there.
  std::set<std::string> submitted_;
  std::set<std::string> free_again_;
};

}  // namespace shardsweep::testing
