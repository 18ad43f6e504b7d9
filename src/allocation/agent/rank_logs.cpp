// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_logs.hpp"

#include "attempt/nccl_log.hpp"
#include "machine/file_ends.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace shardsweep::agent {
namespace {

// A traceback and what a library printed before it. A step of many ranks shares what 32 get.
constexpr std::size_t most_of_one = std::size_t{256} * 1024;
constexpr std::size_t most_of_all = 32 * most_of_one;

}  // namespace

void join_logs(std::vector<Evidence>& evidence, const std::vector<RankLog>& logs,
    const std::vector<Cause>& own, Timestamp now, bool alone) {
  apply_own_causes(evidence, own);
  const std::size_t limit =
      std::min(most_of_one, most_of_all / std::max<std::size_t>(1, logs.size()));
  for (const RankLog& log : logs)
    join_log(evidence, log.rank, find_cause(file_ends(log.path, limit).text, own), now, alone);
}

std::string summarise_nccl(const std::vector<RankLog>& logs, const std::filesystem::path& summary) {
  constexpr std::size_t shown = 5;
  const std::size_t limit =
      std::min(most_of_one, most_of_all / std::max<std::size_t>(1, logs.size()));
  std::string text;
  std::string first;
  for (const RankLog& log : logs) {
    for (const std::string& line : nccl_complaints(file_ends(log.path, limit).text, shown)) {
      if (first.empty()) first = fmt::format("NCCL on rank {}: {}", log.rank, line);
      text += fmt::format("rank {}: {}\n", log.rank, line);
    }
  }
  if (text.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(summary.parent_path(), error);
  (void)write_own_file(summary, text);
  return first;
}

}  // namespace shardsweep::agent
