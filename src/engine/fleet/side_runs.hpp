// SPDX-License-Identifier: Apache-2.0
// Which side runs are due: pure. They come when the ranking of their cell is done, behind all
// other runs on as many nodes, so that no measured run waits for one.
#pragma once

#include <shardsweep/side_run.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>

#include <vector>

namespace shardsweep {

/// Runs due in cells that wait for no measurement: a profile of the winner, and snapshots of its
/// layouts that ran out of memory (most_snapshots). A run is made once, however it ended. A later
/// winner gets a profile of its own.
[[nodiscard]] std::vector<NewFinal> due_side_runs(
    const std::vector<FinalsRow>& rows, const Measure& measure, const SideRuns& wanted);

}  // namespace shardsweep
