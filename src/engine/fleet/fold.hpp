// SPDX-License-Identifier: Apache-2.0
// Observations folded into the world. What Slurm or the process table says, what the agent
// wrote and what the runner recorded are separate observations; these functions join them. None
// decides what to do next (decide.hpp).
#pragma once

#include "fleet/world.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/records.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

struct Fold {
  World& world;
  Timestamp now;
};

/// Records an event; adds the time, and the sweep of its trial or allocation.
void add_event(Fold fold, AddEvent event);

/// One line of an allocation's from_lead. `records` is needed for Ended: what the runner
/// recorded.
void fold_line(Fold fold, const Policy& policy, AllocationId allocation, const FromLead& line,
    const std::optional<RecordsSummary>& records);

/// Takes an event of the scheduler. A job that ended does not end its allocation here: its files
/// have to be read once more first (fold_gone).
void fold_scheduler(Fold fold, const SchedulerEvent& event);

/// Submits it again under the same token. If the first job turns up after all, the claim lets one
/// of the two run.
void submit_again(Fold fold, const AllocationRow& row);

/// An attempt of an allocation that is gone, with what its records hold.
struct Orphan {
  AttemptId attempt = 0;
  RecordsSummary records;
};
/// The allocation's job is over and its lead's last line has been folded: its attempts are
/// completed where a result is durable, lost where they had started, planned again where not.
void fold_gone(Fold fold, const Policy& policy, AllocationId allocation,
    const std::vector<Orphan>& orphans, const std::string& why);

/// Attempts of this allocation that are not over.
[[nodiscard]] std::vector<AttemptId> open_attempts(const World& world, AllocationId allocation);

}  // namespace shardsweep
