// SPDX-License-Identifier: Apache-2.0
// Who has what is alive in hand: how long a daemon may pause, and whether it may leave.
#pragma once

#include "fleet/allocation.hpp"
#include "fleet/world.hpp"

#include <cstddef>
#include <set>

namespace shardsweep {

[[nodiscard]] bool is_active(const World& world, SweepId id);

/// Sweeps with a trial that its file has and that has not ended.
[[nodiscard]] std::set<SweepId> open_sweeps(const World& world);

/// Sweeps that a decision can change: they are open, have an allocation, or wait for a reason that
/// may be over. No other sweep needs a decision.
[[nodiscard]] std::set<SweepId> sweeps_to_decide(const World& world);

/// True while a daemon has something to wait for. `apart`: sweeps that nobody waits for.
[[nodiscard]] bool anything_alive(const World& world, const std::set<SweepId>& apart = {});

/// True if all asked-for work has waited in a cluster's queue for a while: only its scheduler or a
/// request can bring news.
[[nodiscard]] bool only_waits(const World& world, Timestamp now);

/// Number of live allocations, each with a file to read in every tick. 0 if one of them is on the
/// daemon's own machine: nothing is assigned ahead there, so each end must be answered at once.
[[nodiscard]] std::size_t live_in_jobs(const World& world);

}  // namespace shardsweep
