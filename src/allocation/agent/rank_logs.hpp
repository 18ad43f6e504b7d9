// SPDX-License-Identifier: Apache-2.0
// Output of ranks, read within bounds.
#pragma once

#include "attempt/classify.hpp"

#include <shardsweep/protocol.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace shardsweep::agent {

struct RankLog {
  int rank = -1;  ///< -1: of the step
  std::filesystem::path path;
};

/// Adds what the logs say (attempt/classify.hpp, join_log). All logs together cost a bounded
/// number of bytes, whatever was printed.
void join_logs(std::vector<Evidence>& evidence, const std::vector<RankLog>& logs,
    const std::vector<Cause>& own, Timestamp now, bool alone);

/// Writes the first complaints of each rank's NCCL log into `summary`, if there are any.
/// Returns the first rank's first one, as a clause; empty if nobody complains.
[[nodiscard]] std::string summarise_nccl(
    const std::vector<RankLog>& logs, const std::filesystem::path& summary);

}  // namespace shardsweep::agent
