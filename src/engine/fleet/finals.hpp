// SPDX-License-Identifier: Apache-2.0
// When the finals of cells run, and where: pure. The finals of a node count begin when all else
// on as many nodes has ended. All rounds of it run in one allocation, as long as that lives.
#pragma once

#include "fleet/world.hpp"

#include <shardsweep/side_run.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace shardsweep {

/// Applies this tick's uncommitted changes to rows read from the database.
void hear_changes(std::vector<FinalsRow>& rows, std::span<const Change> changes);

/// A trial of the sweep on so many nodes, which is no run in finals, waits or runs.
[[nodiscard]] bool is_searching(const World& world, SweepId sweep, std::int32_t nodes);

/// The next round of each cell that is to have one, in the order of its runs. No cell begins on
/// further nodes while another one has not ended on those before.
[[nodiscard]] std::vector<NewFinal> due_finals(
    const std::vector<FinalsRow>& rows, const Measure& measure);

/// Allocations with measured runs on the sets of nodes before this one.
[[nodiscard]] std::vector<AllocationId> allocations_before(
    const std::vector<FinalsRow>& rows, std::int32_t set);

/// True if the allocation may run the trial. Runs that confirm finals on other nodes have
/// allocations of their own, which take nothing else.
[[nodiscard]] bool is_for(const AllocationRow& allocation, const TrialRow& trial);

/// Ends the runs that an allocation was made for as skipped, because Slurm has too few nodes
/// besides those that the allocation avoids.
void end_finals_without_nodes(World& world, const AllocationRow& allocation, Timestamp now);

/// Ends a final as skipped, because it can't run on other nodes.
void end_final(World& world, const TrialRow& trial, Timestamp now, const std::string& cause);

/// Sweep and node count of the trials that have ended.
[[nodiscard]] std::set<std::pair<SweepId, std::int32_t>> just_ended(
    std::span<const Change> changes);

/// Removes the runs of finals from `trials`, and returns them in their order.
[[nodiscard]] std::vector<const TrialRow*> taken_finals(std::vector<const TrialRow*>& trials);

/// Allocation for this run: the one that has the finals of its node count, else the oldest one that
/// takes work. 0: there is none.
[[nodiscard]] AllocationId home_of_finals(const World& world, const TrialRow& trial);

// Which side runs are due: pure. They come when the ranking of their cell is done, behind all
// other runs on as many nodes, so that no measured run waits for one.

/// Runs due in cells that wait for no measurement: a profile of the winner, and snapshots of its
/// layouts that ran out of memory (most_snapshots). A run is made once, however it ended. A later
/// winner gets a profile of its own.
[[nodiscard]] std::vector<NewFinal> due_side_runs(
    const std::vector<FinalsRow>& rows, const Measure& measure, const SideRuns& wanted);

}  // namespace shardsweep
