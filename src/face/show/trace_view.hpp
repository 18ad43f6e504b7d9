// SPDX-License-Identifier: Apache-2.0
// Allocations and attempts as a timeline in Chrome's trace format, which chrome://tracing and
// Perfetto show: a row of each node for its jobs, for the attempts in them, and for what an
// attempt's time went into. Pure.
#pragma once

#include <shardsweep/table.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep {

/// A row for each node of each allocation: node, job, sweep, started_at, ended_at
/// (microseconds; 0: not yet).
extern const std::string_view trace_allocations_sql;

/// A row for each node of each attempt that has started: node, trial, number, outcome,
/// started_at, ended_at, steps, steps_us (all its train steps, those that warm up too), and
/// result_at (when its result was written; 0: there is none). {}: a condition on trials `t`.
extern const std::string_view trace_attempts_sql;

/// `now`: the end of what has not ended. Start-up is what lies before the train steps, which
/// end with the result; teardown what lies behind it. Without a result neither is known.
[[nodiscard]] std::string trace_text(
    const Table& allocations, const Table& attempts, std::int64_t now);

}  // namespace shardsweep
