// SPDX-License-Identifier: Apache-2.0
#include "attempt/watch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {

AttemptWatch::AttemptWatch(const AttemptSpec& spec, double now_s)
    : spec_(spec), started_s_(now_s), progress_s_(now_s) {}

void AttemptWatch::see(const Record& record, double now_s) {
  if (record.type == RecordType::result) owes_result_ = false;
  if (phase_ == "teardown") return;  // teardown has one limit in all
  const WatchedPhase before = watched();
  const double still_s = this->still_s(now_s);
  if (!take(record, now_s)) return;
  double& longest_s = longest_still_s_[static_cast<std::size_t>(before)];
  longest_s = std::max(longest_s, still_s);
}

/// False if it shows no progress.
bool AttemptWatch::take(const Record& record, double now_s) {
  switch (record.type) {
    case RecordType::start:
      last_record_ = "start";
      break;
    case RecordType::phase:
      // A repeated phase is no progress.
      if (record.phase == phase_ && last_record_ != "none") return false;
      phase_ = record.phase;
      last_record_ = "phase " + record.phase;
      step_since_s_ = now_s - slack_s_;
      break;
    case RecordType::train_step:
      step_ = record.step;
      end_step(now_s);
      last_record_ = fmt::format("train_step {}", record.step);
      break;
    case RecordType::result:
      begin_teardown(now_s);
      last_record_ = "result";
      return true;
    case RecordType::error:
    case RecordType::refusal:
    case RecordType::other:
      return false;
  }
  advance(now_s);
  return true;
}

void AttemptWatch::advance(double now_s) {
  progress_s_ = now_s;
  slack_at_progress_s_ = slack_s_;
}

/// The first train step also compiles, tunes and connects: it counts until there is another.
void AttemptWatch::end_step(double now_s) {
  const double took_s = now_s - slack_s_ - step_since_s_;
  longest_step_s_ = steps_seen_ < 2 ? took_s : std::max(longest_step_s_, took_s);
  step_since_s_ = now_s - slack_s_;
  ++steps_seen_;
}

void AttemptWatch::see_movement(bool all, double now_s) {
  recorders_ = all;
  if (phase_ == "teardown") return;
  double& longest_s = longest_still_s_[static_cast<std::size_t>(watched())];
  longest_s = std::max(longest_s, still_s(now_s));
  advance(now_s);
}

void AttemptWatch::begin_teardown(double now_s) {
  if (phase_ == "teardown") return;
  phase_ = "teardown";
  advance(now_s);
}

void AttemptWatch::see_early_exit(double now_s) {
  if (phase_ != "teardown") owes_result_ = true;
  begin_teardown(now_s);
}

WatchedPhase AttemptWatch::watched() const {
  if (phase_ == "start") return WatchedPhase::start;
  if (phase_ == "rendezvous") return WatchedPhase::rendezvous;
  if (phase_ == "teardown") return WatchedPhase::teardown;
  if (phase_ != "warmup" && phase_ != "train")
    return WatchedPhase::init;  // includes phases that only the runner knows
  return steps_seen_ == 0 ? WatchedPhase::first_step : WatchedPhase::step;
}

double AttemptWatch::limit_s() const {
  switch (watched()) {
    case WatchedPhase::start:
      return spec_.limits.start_limit_s;
    case WatchedPhase::rendezvous:
      return spec_.limits.rendezvous_limit_s;
    case WatchedPhase::init:
      return spec_.limits.init_limit_s;
    case WatchedPhase::first_step:
      return spec_.limits.first_step_limit_s;
    case WatchedPhase::teardown:
      return owes_result_ && spec_.limits.step_limit_s > 0
          ? std::min(spec_.limits.teardown_limit_s, spec_.limits.step_limit_s)
          : spec_.limits.teardown_limit_s;
    case WatchedPhase::step:
      break;
  }
  const double learnt_s = spec_.limits.hang_factor * longest_step_s_;
  // Train steps alone show progress if there are no recorders. Earlier steps may then raise the
  // limit, but never lower it.
  if (!recorders_ || spec_.limits.hang_factor <= 0)
    return steps_seen_ < 2 ? spec_.limits.step_limit_s
                           : std::max(spec_.limits.step_limit_s, learnt_s);
  return std::max(std::min(spec_.limits.hang_floor_s, spec_.limits.step_limit_s), learnt_s);
}

double AttemptWatch::still_s(double now_s) const {
  return now_s - progress_s_ - (slack_s_ - slack_at_progress_s_);
}

std::optional<WatchVerdict> AttemptWatch::judge(double now_s) const {
  const double still_s = this->still_s(now_s);
  const double limit = limit_s();
  if (limit > 0 && still_s > limit) {
    return WatchVerdict{Outcome::hung,
        fmt::format("no progress in phase '{}' for {:.1f} s (limit {:.3g} s), last record: {}",
            phase_, still_s, limit, last_record_)};
  }
  const double total_s = now_s - started_s_ - slack_s_;
  if (spec_.slow_limit_s > 0 && total_s > spec_.slow_limit_s) {
    return WatchVerdict{Outcome::timeout,
        fmt::format("slow: still running after {:.1f} s (predicted {:.3g} s, limit {:g} s), "
                    "but advancing; last record: {}, last progress {:.1f} s ago",
            total_s, spec_.predicted_s, spec_.slow_limit_s, last_record_, still_s)};
  }
  if (spec_.limits.attempt_limit_s > 0 && total_s > spec_.limits.attempt_limit_s) {
    return WatchVerdict{Outcome::timeout,
        fmt::format("still running after {:.1f} s (limit {:g} s), in phase '{}', last record: "
                    "{}, last progress {:.1f} s ago",
            total_s, spec_.limits.attempt_limit_s, phase_, last_record_, still_s)};
  }
  return std::nullopt;
}

}  // namespace shardsweep
