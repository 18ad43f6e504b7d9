// SPDX-License-Identifier: Apache-2.0
// How a point becomes a command line of the runner. The flags are shardbench's contract; a
// runner of another name gets the same ones and takes what it knows.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/sweep.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// Everything of one attempt that the point does not say.
struct LaunchContext {
  AttemptId attempt = 0;
  std::string trial;  ///< slug
  std::string nonce;
  std::string token;    ///< of the allocation
  std::string program;  ///< the runner, where the sweep names none
  AttemptPaths paths;
  std::int32_t slots_per_node = 1;
  std::string lane{};           ///< lane_key; empty: like no other
  double predicted_s = 0;       ///< from start to result; 0: not known
  double give_up_above_ms = 0;  ///< a train step; 0: it runs to its end
  bool expandable = false;      ///< with PyTorch's segments that grow
  std::int64_t parameters = 0;  ///< of the point's model; 0: not known
};

/// Where a sweep's runner lies: as the sweep names it (an absolute path, or a name beside
/// `installed`); where it names none, shardbench's program for the cluster: shardbench-cuda
/// beside `installed` where there are GPUs, else `installed`, shardbench-cpu.
[[nodiscard]] std::string runner_program(const SweepSpec& sweep, const std::string& installed);

/// argv as words: nothing in it is ever read by a shell.
[[nodiscard]] std::vector<std::string> runner_command(const SweepSpec& sweep,
                                                      const Point& point,
                                                      const LaunchContext& context);

[[nodiscard]] AttemptSpec attempt_spec(const SweepSpec& sweep, const Point& point,
                                       const LaunchContext& context);

}  // namespace shardsweep
