// SPDX-License-Identifier: Apache-2.0
// Wall time: whether an attempt can still end before the scheduler ends its allocation. Time is
// data here; who knows the end is the lead.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <optional>
#include <string_view>

namespace shardsweep {

/// What an allocation has left and what it keeps free of it.
struct WallTime {
  std::optional<double> left_s;  ///< until it is ended; none: no limit, or not known (yet)
  double margin = 1;
  double grace_s = 0;
  double stop_before_end_s = 0;

  /// Without a prediction an attempt needs at least what is kept free once more: who starts
  /// something unknown in the last minute measures nothing.
  [[nodiscard]] bool fits(double predicted_s) const;
  /// Nothing fits any more, however short.
  [[nodiscard]] bool is_up() const;
};
[[nodiscard]] WallTime wall_time_of(const AllocationSpec& spec, std::optional<double> left_s);

/// A scheduler's answer about a job's end.
struct JobEndAnswer {
  std::optional<Timestamp> at;  ///< none: it has no end
};
/// Seconds since 1970, or a word for "never" (`squeue -o %e`). None: no answer to rely on.
[[nodiscard]] std::optional<JobEndAnswer> job_end_in(std::string_view text);

}  // namespace shardsweep
