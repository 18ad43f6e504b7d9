// SPDX-License-Identifier: Apache-2.0
// Which side runs are due: pure. They come when the ranking of their cell is done, behind all
// other runs on as many nodes, so that no measured run waits for one.
#pragma once

#include <shardsweep/side_run.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>

#include <vector>

namespace shardsweep {

/// Of each cell in which nothing measured is to come: its winner's profile, and the snapshots
/// of its layouts that ran out of memory (most_snapshots). What has been made once is not made
/// again, however it ended. A winner that a later run has made gets a profile of its own.
[[nodiscard]] std::vector<NewFinal> due_side_runs(
    const std::vector<FinalsRow>& rows, const Measure& measure, const SideRuns& wanted);

}  // namespace shardsweep
