// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_records.hpp"

#include "attempt/step_output.hpp"
#include "machine/file_ends.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <system_error>

namespace shardsweep::agent {

namespace {

// Ranks but the first one write a record only when they fail, which their exit shows too.
constexpr double other_records_s = 1;

constexpr std::size_t most_lines_of_a_look = 10'000;
constexpr std::uint64_t most_unread_bytes = std::uint64_t{4} << 20;

}  // namespace

void RankRecords::follow(int rank) {
  const std::string suffix = rank == 0 ? "" : fmt::format(".{}", rank);
  readers_.emplace(rank, LineReader(here_.paths.records().string() + suffix));
}

bool RankRecords::all_are_due(bool asked) {
  const double now_s = here_.now_s();
  const bool all = asked || now_s - others_read_at_s_ >= other_records_s;
  if (all) others_read_at_s_ = now_s;
  return all;
}

std::vector<std::pair<int, Record>> RankRecords::read(bool all) {
  std::vector<std::pair<int, Record>> records;
  for (const auto& [rank, reader] : readers_) {
    if (rank == 0 || all) read(rank, most_lines_of_a_look, records);
  }
  return records;
}

std::vector<std::pair<int, Record>> RankRecords::read_to_end() {
  std::vector<std::pair<int, Record>> records;
  for (auto& [rank, reader] : readers_) {
    reader.pass_over_all_but(most_unread_bytes);
    read(rank, std::numeric_limits<std::size_t>::max(), records);
  }
  return records;
}

void RankRecords::read(
    int rank, std::size_t most_lines, std::vector<std::pair<int, Record>>& into) {
  const auto lines = readers_.at(rank).look(most_lines);
  if (!lines) return;  // looked at again; silence has its limit
  for (const auto& line : *lines) {
    auto record = decode_record(line);
    if (!record) {
      if (garbage_++ == 0) here_.log.line(fmt::format("rank {}: {}", rank, record.error().what));
    } else if (record->nonce.empty() || record->nonce == here_.spec.nonce) {
      begun_.insert(rank);
      into.emplace_back(rank, *std::move(record));
    }
  }
}

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
