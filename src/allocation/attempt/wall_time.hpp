// SPDX-License-Identifier: Apache-2.0
// Wall time: whether an attempt can still end before the scheduler ends its allocation. Time is
// data here; who knows the end is the lead.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <optional>
#include <string_view>

namespace shardsweep {

/// Remaining time of an allocation, and the part that it keeps free.
struct WallTime {
  std::optional<double> left_s;  ///< time until its end; empty: no limit, or not known (yet)
  double margin = 1;
  double grace_s = 0;
  double stop_before_end_s = 0;

  /// An attempt without a prediction needs at least twice the reserve: an unknown trial that starts
  /// in the last minute measures nothing.
  [[nodiscard]] bool fits(double predicted_s) const;
  /// No attempt fits any more, however short.
  [[nodiscard]] bool is_up() const;
};
[[nodiscard]] WallTime wall_time_of(const AllocationSpec& spec, std::optional<double> left_s);

/// A scheduler's answer about a job's end.
struct JobEndAnswer {
  std::optional<Timestamp> at;  ///< empty: the job has no end
};
/// Seconds since 1970, or a word for "never" (`squeue -o %e`). None: no answer to rely on.
[[nodiscard]] std::optional<JobEndAnswer> job_end_in(std::string_view text);

}  // namespace shardsweep
