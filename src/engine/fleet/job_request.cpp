// SPDX-License-Identifier: Apache-2.0
// What a job is called, and for how long it is asked for.
#include "fleet/decide.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

/// Prolog, srun and node agents, before the lead can start anything.
constexpr double start_s = 120;

}  // namespace

std::string job_name_of(const std::string& sweep, std::int32_t nodes, const std::string& token) {
  return fmt::format("{}-n{}_{}", sweep.substr(0, 24), nodes, token);
}

double least_time_s(double work_s, const Policy& policy) {
  return work_s * policy.lane.time_margin + policy.attempt.grace_s + policy.lane.stop_before_end_s;
}
double needed_time_s(double work_s, const Policy& policy) {
  return least_time_s(work_s, policy) + start_s;
}

double wall_time_s(double predicted_s, double longest_s, const Policy& policy) {
  const double lane_s = std::clamp(needed_time_s(predicted_s, policy),
      std::min(policy.lane_min_time_s, policy.lane_max_time_s), policy.lane_max_time_s);
  // A job that can't hold one of its attempts would be submitted again and again. So the limit
  // gives way for that attempt, but not for a slow start-up.
  const double room_s = needed_time_s(longest_s, policy);
  return std::max(
      lane_s, room_s <= policy.lane_max_time_s ? room_s : least_time_s(longest_s, policy));
}

}  // namespace shardsweep
