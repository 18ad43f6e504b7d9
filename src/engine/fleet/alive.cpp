// SPDX-License-Identifier: Apache-2.0
// Decision: The pause between ticks follows the work in hand: 0.25 s beside running attempts,
// longer if only Slurm can bring news. inotify wakes the daemon for a request.
#include "fleet/alive.hpp"

#include <shardsweep/duration.hpp>

#include <algorithm>

namespace shardsweep {
namespace {

/// True for sweeps that are measured outside: no daemon has to run for them.
bool is_elsewhere(const SweepRow& sweep) {
  return sweep.backend == Backend::outside;
}

}  // namespace

bool is_active(const World& world, SweepId id) {
  const SweepRow* sweep = world.sweep(id);
  return sweep != nullptr && sweep->state == SweepState::active;
}

std::set<SweepId> open_sweeps(const World& world) {
  std::set<SweepId> open;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (world.index().is_open(id)) open.insert(id);
  }
  return open;
}

std::set<SweepId> sweeps_to_decide(const World& world) {
  std::set<SweepId> all;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (world.index().is_open(id) || !sweep.held.empty()) all.insert(id);
  }
  for (const auto& [id, allocation] : world.allocations())
    all.insert(allocation.sweep);
  return all;
}

bool anything_alive(const World& world, const std::set<SweepId>& apart) {
  const bool allocations =
      std::any_of(world.allocations().begin(), world.allocations().end(), [&](const auto& entry) {
        return live(entry.second) && !is_outside(entry.second) &&
            !apart.contains(entry.second.sweep);
      });
  if (allocations) return true;
  return std::any_of(world.sweeps().begin(), world.sweeps().end(), [&](const auto& entry) {
    if (apart.contains(entry.first) || is_elsewhere(entry.second)) return false;
    if (world.index().any_begun() && world.index().begun(entry.first) > 0) return true;
    return entry.second.state == SweepState::active && !world.index().waiting(entry.first).empty();
  });
}

bool only_waits(const World& world, Timestamp now) {
  // Slurm starts a job within seconds if its nodes are idle.
  constexpr double may_start_s = 10;
  bool any = false;
  for (const auto& [id, row] : world.allocations()) {
    if (!live(row) || is_outside(row)) continue;
    if (row.backend == Backend::local || row.claimed_at != 0) return false;
    const double age_s = to_seconds(now - row.created_at);
    if (age_s >= 0 && age_s < may_start_s) return false;
    any = true;
  }
  // A sweep without live allocations may be held: by the clock, or by other users' jobs.
  for (const auto& [id, sweep] : world.sweeps())
    any = any || (sweep.state == SweepState::active && !sweep.held.empty());
  return any;
}

std::size_t live_in_jobs(const World& world) {
  std::size_t count = 0;
  for (const auto& [id, row] : world.allocations()) {
    if (!live(row) || is_outside(row)) continue;
    if (row.backend == Backend::local) return 0;
    ++count;
  }
  return count;
}

}  // namespace shardsweep
