// SPDX-License-Identifier: Apache-2.0
// Clock and power of this node's GPUs while train steps are timed.
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"

namespace shardsweep::agent {
namespace {

// The driver answers within a millisecond; tools that watch GPUs ask as often.
constexpr double pace_look_s = 1;

}  // namespace

/// Whoever does not say which steps are timed is believed to record all of them.
void RunningAttempt::note_timed(const Record& record) {
  if (record.type != RecordType::train_step) return;
  ++steps_ended_;
  timed_ = timed_ || record.timed.value_or(steps_ended_ > spec_.warmup);
}

void RunningAttempt::look_at_pace() {
  const bool trains = timed_ && !measured_ && !left_early_ && stage_ == Stage::running;
  if (!spec_.watch_pace || gpus_ == nullptr || !trains) return;
  const double now_s = seconds_of(clock_);
  if (pace_looked_at_s_ && now_s - *pace_looked_at_s_ < pace_look_s) return;
  pace_looked_at_s_ = now_s;
  gpus_->add_paces(pace_);
}

void RunningAttempt::tell_pace(NodeEnded& ended) const {
  const Pace pace = pace_.pace();
  ended.sm_clock_mhz = pace.sm_clock_mhz;
  ended.power_w = pace.power_w;
  ended.held_back = static_cast<std::int64_t>(pace.held_back);
}

}  // namespace shardsweep::agent
