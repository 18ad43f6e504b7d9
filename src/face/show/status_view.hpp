// SPDX-License-Identifier: Apache-2.0
// What `status` shows to people: a short table, or one sweep in lines of its own.
#pragma once

#include "show/live_view.hpp"
#include "show/styled_text.hpp"

#include <shardsweep/results.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// "done" is no state of the database: an edited file or `rerun` gives a sweep new work.
[[nodiscard]] std::string state_text(const SweepStatus& status);

/// Sweep, state, trials that have ended, time left, outcomes. What is too long for the width
/// goes on in the next line.
[[nodiscard]] std::vector<StyledLine> status_table_lines(
    const std::vector<SweepStatus>& sweeps, const ViewSize& size);

/// Sweeps that became slower: "nightly: slower since 2026-11-24 10:00:00: dp2 …: slower by …". The
/// first three, and how many more there are; empty if there is none.
[[nodiscard]] std::string regressions_text(const std::vector<Regression>& regressions);

/// One sweep: a line per fact. `best`: of its cells.
[[nodiscard]] std::vector<StyledLine> status_lines(const SweepStatus& sweep,
    const std::vector<CellBest>& best, Timestamp now, const ViewSize& size);

}  // namespace shardsweep
