// SPDX-License-Identifier: Apache-2.0
#include "domain/watch.hpp"

#include <fmt/format.h>

namespace shardsweep {

AttemptWatch::AttemptWatch(const AttemptSpec& spec, double now_s)
    : spec_(spec), started_s_(now_s), progress_s_(now_s) {}

void AttemptWatch::see(const Record& record, double now_s) {
  if (phase_ == "teardown") return;  // what is left has one limit in all
  switch (record.type) {
    case RecordType::start:
      last_record_ = "start";
      break;
    case RecordType::phase:
      // The same phase named again is no progress.
      if (record.phase == phase_ && last_record_ != "none") return;
      phase_ = record.phase;
      last_record_ = "phase " + record.phase;
      break;
    case RecordType::train_step:
      step_ = record.step;
      stepped_ = true;
      last_record_ = fmt::format("train_step {}", record.step);
      break;
    case RecordType::result:
      begin_teardown(now_s);
      last_record_ = "result";
      return;
    case RecordType::error:
    case RecordType::other:
      return;
  }
  progress_s_ = now_s;
  slack_at_progress_s_ = slack_s_;
}

void AttemptWatch::begin_teardown(double now_s) {
  if (phase_ == "teardown") return;
  phase_ = "teardown";
  progress_s_ = now_s;
  slack_at_progress_s_ = slack_s_;
}

double AttemptWatch::limit_s() const {
  if (phase_ == "start") return spec_.start_limit_s;
  if (phase_ == "rendezvous") return spec_.rendezvous_limit_s;
  if (phase_ == "warmup" || phase_ == "train")
    return stepped_ ? spec_.step_limit_s : spec_.first_step_limit_s;
  if (phase_ == "teardown") return spec_.teardown_limit_s;
  return spec_.init_limit_s;  // also for a phase that only the runner knows
}

std::optional<WatchVerdict> AttemptWatch::judge(double now_s) const {
  const double still_s = now_s - progress_s_ - (slack_s_ - slack_at_progress_s_);
  const double limit = limit_s();
  if (limit > 0 && still_s > limit) {
    return WatchVerdict{
        Outcome::hung,
        fmt::format("no progress in phase '{}' for {:.1f} s (limit {:g} s), last record: {}",
                    phase_, still_s, limit, last_record_)};
  }
  const double total_s = now_s - started_s_ - slack_s_;
  if (spec_.attempt_limit_s > 0 && total_s > spec_.attempt_limit_s) {
    return WatchVerdict{
        Outcome::timeout,
        fmt::format("not over after {:.1f} s (limit {:g} s), in phase '{}', last record: {}",
                    total_s, spec_.attempt_limit_s, phase_, last_record_)};
  }
  return std::nullopt;
}

}  // namespace shardsweep
