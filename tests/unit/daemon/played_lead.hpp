// SPDX-License-Identifier: Apache-2.0
// A lead that a test plays: it claims its allocation, reads to_lead and writes from_lead as the
// agent does. Its ranks are a line in a records file.
//
// Decision: It stays beside the production lead (played_allocation.hpp). The tests of
// unit_daemon are about what a daemon makes of one line at one moment: an end whose pack is not
// there, a result that nobody speaks of, a lead that is silent between two lines, a line that
// comes after its allocation has ended. The production lead says what follows from its nodes,
// after rounds of beats and of settling: to have it say just this, a test would play faults and
// clocks until it does, and would no longer see what the daemon knew in between. What it says
// by itself is the simulator's matter. What comes next is decided by the product here, too
// (Assignments).
#pragma once

#include "attempt/assignments.hpp"
#include "unit/daemon/played_attempts.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <filesystem>
#include <optional>
#include <random>
#include <string>

namespace shardsweep::testing {

class PlayedLead {
 public:
  PlayedLead(const std::filesystem::path& dir, std::string job_id, PlayedAttempts& attempts);
  /// Of its job, which its agents name when they are there.
  std::vector<std::string> nodes{};

  /// False where another job of this token has the claim.
  [[nodiscard]] bool claim(Timestamp now);
  [[nodiscard]] bool claimed() const { return claimed_; }
  /// What the daemon has said. One that is told to end may have measured all the same.
  void hear(std::mt19937_64& random, Timestamp now);
  /// Starts what waits; false where nothing does. What a rule skips ends at once.
  bool start_next(Timestamp now);
  /// Of the running attempt. A result is in its records before its lead speaks.
  void end(Outcome outcome, Timestamp now, Mark mark = Mark::none, const std::string& node = "");
  /// The same, with all that a lead may say of it; `speed`: of its result, 0: any.
  void end(Ended said, Timestamp now, double speed = 0);
  /// The running attempt writes its result, and nobody says so.
  void leave_result();
  void say(FromLeadBody body, Timestamp now);
  /// Says so; nothing more is heard of it.
  void leave(const std::string& why, Timestamp now);

  [[nodiscard]] bool runs() const { return running_.has_value(); }
  [[nodiscard]] bool draining() const { return work_.draining(); }
  [[nodiscard]] bool waits() const { return work_.empty() && !running_; }
  [[nodiscard]] Timestamp spoke_at() const { return spoke_at_; }
  [[nodiscard]] AttemptId running() const { return running_ ? running_->attempt : 0; }
  /// It runs a probe or a control.
  [[nodiscard]] bool runs_extra() const { return running() < 0; }

 private:
  AllocationPaths paths_;
  std::string job_id_;
  PlayedAttempts& attempts_;
  Assignments work_;
  LineReader orders_;
  std::optional<Assign> running_;
  std::int64_t n_ = 0;
  Timestamp spoke_at_ = 0;
  bool claimed_ = false;
};

}  // namespace shardsweep::testing
