// SPDX-License-Identifier: Apache-2.0
#include "fleet/lanes.hpp"

#include "fleet/allocation.hpp"

#include <shardsweep/duration.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace shardsweep {
namespace {

/// A job that waited longer than this found no idle node.
constexpr double starts_at_once_s = 60;

/// Assumed start of a lane if none has started yet: the least time that Slurm needs from a job to
/// its first attempt.
constexpr double assumed_start_s = 3;

/// Lanes asked for at once, for each that has just started: 1, 4, 16, ...
constexpr std::int64_t lanes_for_each_started = 4;

/// Time of the first start in the allocation; empty if no attempt has started. Attempts start in
/// the order of their assignment.
std::optional<Timestamp> first_start_in(const World& world, AllocationId allocation) {
  for (const AttemptId id : world.attempts_of(allocation)) {
    const Timestamp at = world.attempts().at(id).started_at;
    if (at != 0) return at;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t most_allocations(const SweepFacts& facts) {
  constexpr std::int64_t default_allocations = 4;
  return facts.policy.max_allocations > 0 ? facts.policy.max_allocations
      : facts.backend == Backend::local   ? 1
                                          : default_allocations;
}

bool within_limits(const World& world, SweepId sweep, const SweepFacts& facts, std::int32_t nodes) {
  const Policy& policy = facts.policy;
  std::int64_t live_count = 0;
  std::int64_t pending = 0;
  std::int64_t nodes_held = 0;
  for (const auto& [id, row] : world.allocations()) {
    if (row.sweep != sweep || !live(row) || !row.probe_of.empty()) continue;
    ++live_count;
    nodes_held += row.nodes;
    if (row.claimed_at == 0 && row.job_state != JobState::running) ++pending;
  }
  return live_count < most_allocations(facts) &&
      (policy.max_pending == 0 || pending < policy.max_pending) &&
      (policy.max_nodes == 0 || nodes_held + nodes <= policy.max_nodes);
}

std::int64_t lanes_for_work(const Demand& demand, const Policy& policy) {
  if (policy.lane_length > 0) return (demand.trials + policy.lane_length - 1) / policy.lane_length;
  const double lanes = demand.predicted_s / std::max(policy.lane_ahead_s, 1.0);
  // Lanes are limited by the number of trials, because one long trial fills a lane by itself.
  const auto wanted = static_cast<std::int64_t>(std::ceil(std::min(lanes, 1e6)));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, demand.trials));
}

std::int64_t idle_nodes_left(const World& world, std::int64_t idle, Timestamp idle_at) {
  // A job that was submitted shortly before may not have had nodes yet.
  constexpr double settles_s = 30;
  for (const auto& [id, row] : world.allocations()) {
    if (!live(row) || row.backend != Backend::slurm) continue;
    const bool counted_busy = to_seconds(idle_at - row.created_at) > settles_s;
    const bool waited = row.claimed_at == 0
        ? counted_busy
        : to_seconds(row.claimed_at - row.created_at) > starts_at_once_s;
    if (waited) return 0;
    if (!counted_busy) idle -= row.nodes;
  }
  for (const auto& [name, node] : world.nodes())
    if (node.state != NodeState::trusted) --idle;
  return std::max<std::int64_t>(0, idle);
}

std::int64_t lanes_for_idle_nodes(
    const World& world, SweepId sweep, const Demand& demand, std::int64_t idle) {
  const bool named = idle >= demand.nodes;
  std::int64_t lanes = 0;
  double start_s = assumed_start_s;  // start of the newest lane
  for (const auto& [id, row] : world.allocations()) {
    if (!live(row) || row.backend != Backend::slurm) continue;
    if (!named && row.claimed_at == 0) return 0;
    if (row.sweep != sweep || row.nodes != demand.nodes || !takes_work(row)) continue;
    ++lanes;
    if (const auto first_start = first_start_in(world, id)) {
      start_s = to_seconds(*first_start - row.created_at);
    } else if (!named) {
      return 0;
    }
    const bool waited = to_seconds(row.claimed_at - row.created_at) > starts_at_once_s;
    if (!named && waited) return 0;
  }
  const auto more = named ? std::min(idle / demand.nodes, lanes_for_each_started)
                          : (lanes_for_each_started - 1) * lanes;
  const auto most = lanes + std::min(more, demand.waiting);
  const auto saves_s = [&] {
    const auto now = static_cast<double>(lanes);
    return demand.predicted_s / now - demand.predicted_s / (now + 1);
  };
  while (lanes > 0 && lanes < most && saves_s() > start_s)
    ++lanes;
  return lanes;
}

}  // namespace shardsweep
