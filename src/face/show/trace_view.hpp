// SPDX-License-Identifier: Apache-2.0
// Allocations and attempts as a timeline in Chrome's trace format, which chrome://tracing and
// Perfetto show: a row of each node for its jobs, for the attempts in them, and for what an
// attempt's time went into. Pure.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/described.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

/// An allocation on one of its nodes.
struct TracedJob {
  std::string node;
  std::string job;
  std::string sweep;
  Timestamp started_at = 0;
  Timestamp ended_at = 0;  ///< 0: not yet
};
SHARDSWEEP_DESCRIBE(TracedJob, node, job, sweep, started_at, ended_at);

/// An attempt that has started, on one of its nodes.
struct TracedAttempt {
  std::string node;
  std::string trial;
  std::int64_t number = 0;
  std::string outcome;
  Timestamp started_at = 0;
  Timestamp ended_at = 0;  ///< 0: not yet
  std::int64_t steps = 0;
  std::int64_t steps_us = 0;  ///< all its train steps, those that warm up too
  Timestamp result_at = 0;    ///< time when its result was written; 0: there is none
};
SHARDSWEEP_DESCRIBE(
    TracedAttempt, node, trial, number, outcome, started_at, ended_at, steps, steps_us, result_at);

/// `now`: the end of what has not ended. Start-up is what lies before the train steps, which
/// end with the result; teardown what lies behind it. Without a result neither is known.
[[nodiscard]] std::string trace_text(
    const std::vector<TracedJob>& jobs, const std::vector<TracedAttempt>& attempts, Timestamp now);

}  // namespace shardsweep
