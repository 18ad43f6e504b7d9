// SPDX-License-Identifier: Apache-2.0
// Series over time as a command prints or draws them.
#pragma once

#include "cli/session.hpp"
#include "show/history.hpp"

namespace shardsweep {

/// Prints a history by --format and --output. `points`: a row for each measurement; `shape` makes
/// the printed table anew, nullptr leaves it.
[[nodiscard]] Result<ExitCode> show_history(const Session& session, const Options& options,
    const History& history, bool points, Table (*shape)(const Table&) = nullptr);

}  // namespace shardsweep
