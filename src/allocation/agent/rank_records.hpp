// SPDX-License-Identifier: Apache-2.0
// The records that an attempt's ranks write, as they come. Each look opens a file, on a network
// file system a question to its server: those of most ranks are looked at once a second, and
// when a rank has ended. Rank 0 speaks for the world and is read at each look.
#pragma once

#include "agent/attempt_here.hpp"
#include "attempt/classify.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::agent {

class RankRecords {
 public:
  explicit RankRecords(const AttemptHere& here) : here_(here) {}

  void follow(int rank);
  /// True if all ranks are to be read at this look. `asked`: something has happened.
  [[nodiscard]] bool all_are_due(bool asked);
  /// New records, each with its rank; lines of other attempts are left out.
  [[nodiscard]] std::vector<std::pair<int, Record>> read(bool all);
  /// Reads all ranks to their end, once one has ended. A result is a runner's last record, so at
  /// most the last 4 MiB of a file are read.
  [[nodiscard]] std::vector<std::pair<int, Record>> read_to_end();
  /// True if this rank has written a record: its program has begun.
  [[nodiscard]] bool has_any_of(int rank) const { return begun_.contains(rank); }
  /// Lines so far that are no records.
  [[nodiscard]] std::int64_t garbage() const { return garbage_; }

 private:
  void read(int rank, std::size_t most_lines, std::vector<std::pair<int, Record>>& into);

  const AttemptHere& here_;
  std::map<int, LineReader> readers_;  ///< readers by rank
  std::set<int> begun_;
  double others_read_at_s_ = 0;
  std::int64_t garbage_ = 0;
};

// Output of ranks, read within bounds.

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
