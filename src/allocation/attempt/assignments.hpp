// SPDX-License-Identifier: Apache-2.0
// What a lead has been told to run: order, revocations, and the rule that after an oom the
// larger micro-batches of a lane are not started.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/ending.hpp>
#include <shardsweep/protocol.hpp>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

// Wall time: whether an attempt can still end before the scheduler ends its allocation. Time is
// data here; who knows the end is the lead.

/// Remaining time of an allocation, and the part that it keeps free.
struct WallTime {
  std::optional<double> left_s;  ///< time until its end; empty: no limit, or not known (yet)
  double margin = 1;
  double grace_s = 0;
  double stop_before_end_s = 0;

  /// An attempt without a prediction needs at least twice the reserve: an unknown trial that starts
  /// in the last minute measures nothing.
  [[nodiscard]] bool fits(double predicted_s) const;
  /// No attempt fits any more, however short.
  [[nodiscard]] bool is_up() const;
};
[[nodiscard]] WallTime wall_time_of(const AllocationSpec& spec, std::optional<double> left_s);

/// A scheduler's answer about a job's end.
struct JobEndAnswer {
  std::optional<Timestamp> at;  ///< empty: the job has no end
};
/// Seconds since 1970, or a word for "never" (`squeue -o %e`). None: no answer to rely on.
[[nodiscard]] std::optional<JobEndAnswer> job_end_in(std::string_view text);

/// Effects of a line from the daemon. An attempt that never started ends at once.
struct AssignmentNews {
  std::vector<AttemptId> revoked;
  std::vector<std::pair<Assign, std::string>> cancelled;  ///< attempts, each with the reason
  std::optional<Cancel> end_running;
};

/// The next thing to do: start it, or say that it was skipped, and why.
struct NextAssignment {
  Assign assign;
  std::string skipped_because;  ///< empty: start it
};

class Assignments {
 public:
  /// Lines of an older epoch than seen, and an attempt assigned again, change nothing.
  [[nodiscard]] AssignmentNews apply(const ToLead& line);
  /// Takes the next attempt out of the queue; none if nothing waits.
  [[nodiscard]] std::optional<NextAssignment> next();
  void ended(const Assign& assign, Outcome outcome);
  /// Takes everything that waits out of the queue.
  [[nodiscard]] std::vector<AttemptId> give_back();
  /// Takes out of the queue what can't end in time: there will never be more of it.
  [[nodiscard]] std::vector<AttemptId> give_back_unfit(const WallTime& time);

  [[nodiscard]] bool draining() const { return draining_; }
  [[nodiscard]] bool empty() const { return queue_.empty(); }

 private:
  struct OutOfMemory {
    std::int32_t micro_batch = 0;
    std::string trial;
  };
  void assign(const Assign& assign, AssignmentNews& news);
  void revoke(AttemptId attempt, AssignmentNews& news);
  void cancel(const Cancel& cancel, AssignmentNews& news);
  [[nodiscard]] std::optional<Assign> take(AttemptId attempt);

  std::int64_t epoch_ = 0;
  bool draining_ = false;
  AttemptId running_ = 0;
  std::deque<Assign> queue_;
  std::set<AttemptId> seen_;                   ///< assigned, or revoked before that
  std::map<AttemptId, std::string> unwanted_;  ///< cancelled before they were assigned
  std::map<std::string, OutOfMemory> oom_;     ///< smallest micro-batch that ran out of memory in
                                               ///< each lane
};

// May the lead start another attempt? Not where nothing of it could be stored, and not at once
// where the program of the one before did not start: each try costs a trial its turn. Pure.

/// Why no file can be written, in a clause; empty: one can. `doubted`: looking is not enough to
/// believe that.
using StorageLook = std::function<std::string(bool doubted)>;
/// Receives a line for the log for each change worth one.
using GateNews = std::function<void(const std::string& line)>;

class StartGate {
 public:
  /// Notes a failed write: after it, a mere look does not prove that the storage works.
  void doubt_storage() { doubted_ = true; }
  void note_end(const Ending& ending, double now_s);
  [[nodiscard]] bool is_open(double now_s, const StorageLook& look, const GateNews& log);
  /// Why the gate stays shut, for an allocation that has waited too long; empty: it does not.
  [[nodiscard]] std::string storage_fault() const { return fault_; }
  /// Why the gate stays shut because too many programs in a row did not start; empty: it does not.
  [[nodiscard]] std::string start_fault() const;

 private:
  [[nodiscard]] bool storage_works(double now_s, const StorageLook& look, const GateNews& log);

  bool doubted_ = false;
  std::string fault_;
  double looked_at_s_ = 0;
  int failed_starts_ = 0;  ///< failed starts in a row
  std::string last_failure_;
  std::string changed_;  ///< the programs: no attempt that is assigned can run
  double start_again_s_ = 0;
};

}  // namespace shardsweep
