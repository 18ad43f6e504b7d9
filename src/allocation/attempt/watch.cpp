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

// Decision: Limits are learnt within one allocation: same nodes, same caches, nothing stored.

namespace {

// Two attempts are too few: the first one of an allocation also warms caches.
constexpr std::int32_t enough_attempts = 3;

}  // namespace

void LearntLimits::learn(const AttemptSpec& spec, const StillTimes& longest_still_s) {
  if (spec.group.empty()) return;
  Group& group = groups_[spec.group];
  ++group.attempts;
  group.predicted_s = std::max(group.predicted_s, spec.predicted_s);
  for (std::size_t i = 0; i < longest_still_s.size(); ++i)
    group.longest_still_s[i] = std::max(group.longest_still_s[i], longest_still_s[i]);
}

AttemptSpec LearntLimits::applied_to(AttemptSpec spec) const {
  const auto found = groups_.find(spec.group);
  if (found == groups_.end() || found->second.attempts < enough_attempts) return spec;
  if (spec.limits.learn_factor <= 0) return spec;
  const Group& group = found->second;
  const double scale =
      group.predicted_s > 0 ? std::max(1.0, spec.predicted_s / group.predicted_s) : 1.0;
  const auto shorten = [&](double& limit_s, WatchedPhase phase) {
    const double still_s = group.longest_still_s[static_cast<std::size_t>(phase)];
    const double learnt_s =
        std::max(spec.limits.learn_floor_s, spec.limits.learn_factor * still_s * scale);
    limit_s = std::min(limit_s, learnt_s);
  };
  shorten(spec.limits.start_limit_s, WatchedPhase::start);
  shorten(spec.limits.rendezvous_limit_s, WatchedPhase::rendezvous);
  shorten(spec.limits.init_limit_s, WatchedPhase::init);
  shorten(spec.limits.first_step_limit_s, WatchedPhase::first_step);
  return spec;
}

}  // namespace shardsweep
