// SPDX-License-Identifier: Apache-2.0
// Decision: Limits are learnt within one allocation: same nodes, same caches, nothing stored.
#include "attempt/learnt_limits.hpp"

#include <algorithm>

namespace shardsweep {
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
