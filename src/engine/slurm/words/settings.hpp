// SPDX-License-Identifier: Apache-2.0
// What a cluster says of itself, as far as the way of asking it depends on it.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep::slurm {

struct Settings {
  std::string version;
  std::string cluster;
  bool accounting = false;        ///< sacct can answer
  double message_timeout_s = 10;  ///< MessageTimeout
  double min_job_age_s = 300;     ///< MinJobAge: how long squeue lists an ended job
  double slurmd_timeout_s = 300;  ///< SlurmdTimeout: until a dead node is noticed
  double kill_wait_s = 30;        ///< KillWait
  std::int64_t max_array_size = 1001;
  std::int64_t max_jobs = 10'000;  ///< MaxJobCount
};

/// Reads `scontrol show config`. Missing settings keep their default; a text that is no
/// configuration at all is a fault. What is not there keeps its default; a text that is no
/// configuration at all is a fault.
[[nodiscard]] Result<Settings> parse_settings(std::string_view text);

}  // namespace shardsweep::slurm
