// SPDX-License-Identifier: Apache-2.0
// Watch policy: from what a runner has recorded and when, whether its attempt still advances.
// Times are seconds of a monotonic clock that the caller reads.
//
// Two things show progress: a record (a phase, a train step) and, where a runner keeps flight
// recorders, an operation of any rank that begins or ends. So a slow attempt is told from one
// that stands still, and a hang is known as soon as nothing has moved for twice as long as
// a train step takes.
#pragma once

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace shardsweep {

/// Phase whose limit without progress applies.
enum class WatchedPhase : std::uint8_t { start, rendezvous, init, first_step, step, teardown };
/// Seconds, by WatchedPhase.
using StillTimes = std::array<double, 6>;

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
  /// An operation of a rank was seen to begin or end. `all`: every rank that is to be watched
  /// here keeps a flight recorder, so that stillness means something.
  void see_movement(bool all, double now_s);
  /// Notes a gap of our own loop: limits are extended by it.
  void stretch(double gap_s) { slack_s_ += gap_s; }
  /// The work is done or has failed: what is left are processes that have to end.
  void begin_teardown(double now_s);
  /// A rank has left with 0 before there was a result. The others are torn down, too; but if
  /// they still train and stand still, nobody has to wait longer than for a train step.
  void see_early_exit(double now_s);

  /// Empty while all is well.
  [[nodiscard]] std::optional<WatchVerdict> judge(double now_s) const;

  [[nodiscard]] const std::string& phase() const { return phase_; }
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Seconds without any progress, our own gaps left out.
  [[nodiscard]] double still_s(double now_s) const;
  /// Limit without progress, after which the attempt counts as hung; 0: none.
  [[nodiscard]] double limit_s() const;
  /// The longest that it was without progress in each phase, and went on.
  [[nodiscard]] const StillTimes& longest_still_s() const { return longest_still_s_; }

 private:
  [[nodiscard]] WatchedPhase watched() const;
  [[nodiscard]] bool take(const Record& record, double now_s);
  void advance(double now_s);
  void end_step(double now_s);

  AttemptSpec spec_;
  double started_s_;
  double progress_s_;
  double slack_s_ = 0;
  double slack_at_progress_s_ = 0;
  double step_since_s_ = 0;  ///< begin of the present train step, with the slack until then
  double longest_step_s_ = 0;
  StillTimes longest_still_s_{};
  std::int32_t steps_seen_ = 0;
  bool recorders_ = false;
  bool owes_result_ = false;  ///< torn down without one
  std::string phase_ = "start";
  std::string last_record_ = "none";
  std::int64_t step_ = 0;
};

// Limits per phase, learnt from attempts of the same group that were measured in this
// allocation: what took seconds three times need not stand still for minutes. Pure.
//
//   limit = min(its own, max(learn_floor_s, learn_factor · longest stillness · scale))
//   scale = max(1, predicted time / longest predicted time that it was learnt from)
//
// So a limit is only ever shortened, and never below the floor. Of start, rendezvous, init and
// first train step; later steps have a limit of their own (AttemptWatch::limit_s), and the
// first one, which warms up, never counts as one of them.

class LearntLimits {
 public:
  /// `spec` completed; the longest time without movement in each phase.
  void learn(const AttemptSpec& spec, const StillTimes& longest_still_s);
  /// `spec` with what its group has taught.
  [[nodiscard]] AttemptSpec applied_to(AttemptSpec spec) const;

 private:
  struct Group {
    std::int32_t attempts = 0;
    StillTimes longest_still_s{};
    double predicted_s = 0;  ///< the longest
  };
  std::map<std::string, Group> groups_;
};

}  // namespace shardsweep
