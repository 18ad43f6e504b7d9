// SPDX-License-Identifier: Apache-2.0
// How much of a node's CPU time was somebody else's: a measurement that others have disturbed
// is none.
#pragma once

#include <optional>
#include <string_view>

namespace shardsweep {

/// Counted since the machine started.
struct CpuUse {
  double at_s = 0;    ///< time on the monotonic clock
  double busy_s = 0;  ///< busy time of all CPUs together, whoever used them
  double own_s = 0;   ///< time of this process and of all its reaped children
  int cpus = 1;
};

/// Seconds of the line "cpu " of /proc/stat, without idle time, waiting for disks and what a
/// hypervisor took; none if it is not there.
[[nodiscard]] std::optional<double> busy_seconds_in(std::string_view proc_stat, double ticks_per_s);

/// Use until now. Complete for an attempt once all of its processes have been reaped.
[[nodiscard]] std::optional<CpuUse> cpu_use(double now_s);

/// The share of all CPU time between two looks that was not our own, 0 … 1.
[[nodiscard]] double others_share(const CpuUse& before, const CpuUse& after);

}  // namespace shardsweep
