// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_records.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>

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

}  // namespace shardsweep::agent
