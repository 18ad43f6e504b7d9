// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardsweep/outcome.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/rows.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace shardsweep {

/// A trial as its sweep's search sees it (search/sweep_search.hpp).
struct SearchRow {
  TrialId id = 0;
  Point point;
  std::optional<Outcome> outcome;
  bool attempted = false;
  bool rerun = false;               ///< asked for by name
  bool spared = false;              ///< not run, since the search left it out
  double tokens_per_s_per_gpu = 0;  ///< speed of its counted, unmarked measurement; 0: none
  bool cut_short = false;           ///< true: that run was cut short, so its speed is a bound
  double resolution = 0;            ///< share of that speed that its log rounds away
  std::int64_t peak_memory_bytes = 0;
  double train_step_ms = 0;  ///< train step of that measurement
  double gpu_seconds = 0;    ///< GPU time of its attempts that are over
  /// Duration of the attempt that has its speed, or of its last one, if that is over; 0: not known.
  double seconds = 0;
  Timestamp ended_at = 0;  ///< end of its last attempt; 0: none is over
  /// Number of the event of its end, or of its last attempt's: events are numbered in the order in
  /// which ends were observed.
  std::int64_t end_event = 0;
  AttemptId running = 0;  ///< attempt that has started and is not over; 0: none
  Timestamp running_since = 0;
  std::string runner_version{};
};

}  // namespace shardsweep
