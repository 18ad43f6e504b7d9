// SPDX-License-Identifier: Apache-2.0
// Is this node fit for the next attempt? What earlier ones have left is ended first.
#pragma once

#include "agent/log.hpp"
#include "attempt/node_machine.hpp"

#include <shardsweep/protocol.hpp>

#include <filesystem>
#include <string>

namespace shardsweep::agent {

/// Identity of the checked node, and where to find out which Slurm jobs were ours and have ended.
struct CheckedNode {
  std::string token;
  std::string name;
  std::string job;      ///< the Slurm job that it works in; may be empty
  std::string cluster;  ///< SLURM_CLUSTER_NAME, the same
  std::filesystem::path ended_jobs;
};

/// Ends marked processes whose owners are gone, and unmarked ones of our ended jobs, waiting at
/// most 3 s for them, and removes abandoned shared memory.
[[nodiscard]] NodeCheck check_node(const CheckedNode& node, const Log& log);

}  // namespace shardsweep::agent
