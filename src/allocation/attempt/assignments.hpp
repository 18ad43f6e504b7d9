// SPDX-License-Identifier: Apache-2.0
// What a lead has been told to run: order, revocations, and the rule that after an oom the
// larger micro-batches of a lane are not started.
#pragma once

#include "attempt/wall_time.hpp"

#include <shardsweep/protocol.hpp>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsweep {

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

}  // namespace shardsweep
