// SPDX-License-Identifier: Apache-2.0
// How many lanes work for one node count gets, and how far each is filled. A lane is an allocation
// in which attempts run one after the other. Pure.
#pragma once

#include "fleet/site_limits.hpp"
#include "fleet/world.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace shardsweep {

/// Work for one node count.
struct Demand {
  std::int32_t nodes = 1;
  double predicted_s = 0;        ///< predicted time of waiting and of assigned, unfinished trials
  double longest_s = 0;          ///< longest predicted time among them
  std::int64_t trials = 0;       ///< number of those trials
  std::int64_t waiting = 0;      ///< number of them that are not assigned
  std::int64_t live = 0;         ///< allocations that take such work
  std::int64_t allocations = 1;  ///< wanted number of allocations
  std::int32_t final_set = 0;    ///< set of the first waiting trial, if it has to run on other
                                 ///< nodes
  std::string avoid{};           ///< nodes to avoid then
};

/// Limits to filling the lanes of one node count, so that others that start find work.
struct Share {
  /// Number of lanes, in the order of their making, that are filled before they start.
  std::int64_t waiting_lanes = std::numeric_limits<std::int64_t>::max();
  double predicted_s = std::numeric_limits<double>::infinity();  ///< limit of predicted time in a
                                                                 ///< lane
};

/// Attempts that a lane holds at least: one runs, and one waits so that no GPU does.
inline constexpr std::int64_t least_open = 2;

/// Number set by `limits.max_allocations`, or its default.
[[nodiscard]] std::int64_t most_allocations(const SweepFacts& facts);

/// True if one more allocation of this size is within the limits of the sweep's file.
[[nodiscard]] bool within_limits(
    const World& world, SweepId sweep, const SweepFacts& facts, std::int32_t nodes);

/// Number of lanes that the predicted work is worth: `lane.ahead` of it each, or `lane.length`
/// attempts.
[[nodiscard]] std::int64_t lanes_for_work(const Demand& demand, const Policy& policy);

/// How many of the `idle` nodes, counted at `idle_at`, no job of ours has or may have taken since.
/// 0 if a job of ours waits, or waited, while they were idle: then they can't be had.
[[nodiscard]] std::int64_t idle_nodes_left(
    const World& world, std::int64_t idle, Timestamp idle_at);

/// Lanes for short work on idle nodes. Nodes are idle if the scheduler says so (`idle`; 0: it has
/// not), or if a lane has just started at once; such a lane justifies four more. 0 if a job of ours
/// waits, because the next one would wait too, or if starting one more lane, with its checks and
/// controls, costs as much time as it saves.
[[nodiscard]] std::int64_t lanes_for_idle_nodes(
    const World& world, SweepId sweep, const Demand& demand, std::int64_t idle);

}  // namespace shardsweep
