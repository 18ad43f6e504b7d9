// SPDX-License-Identifier: Apache-2.0
// Watch policy: from what a runner has recorded and when, whether its attempt still advances.
// Times are seconds of a monotonic clock that the caller reads.
#pragma once

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <optional>
#include <string>

namespace shardsweep {

struct WatchVerdict {
  Outcome outcome = Outcome::hung;
  std::string cause;
  friend bool operator==(const WatchVerdict&, const WatchVerdict&) = default;
};

class AttemptWatch {
 public:
  AttemptWatch(const AttemptSpec& spec, double now_s);

  /// A record of this attempt: where it shows progress, the phase's time starts again.
  void see(const Record& record, double now_s);
  /// Our own loop stood still for so long: what it could not see is held against nobody.
  void stretch(double gap_s) { slack_s_ += gap_s; }
  /// The work is done or has failed: what is left are processes that have to end.
  void begin_teardown(double now_s);

  /// None while all is well.
  [[nodiscard]] std::optional<WatchVerdict> judge(double now_s) const;

  [[nodiscard]] const std::string& phase() const { return phase_; }
  [[nodiscard]] std::int64_t step() const { return step_; }

 private:
  [[nodiscard]] double limit_s() const;

  AttemptSpec spec_;
  double started_s_;
  double progress_s_;
  double slack_s_ = 0;
  double slack_at_progress_s_ = 0;
  std::string phase_ = "start";
  std::string last_record_ = "none";
  std::int64_t step_ = 0;
  bool stepped_ = false;
};

}  // namespace shardsweep
