// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_records.hpp"

#include <fmt/format.h>

#include <string>

namespace shardsweep::agent {
namespace {

// Ranks but the first one write a record only when they fail, which their exit shows too.
constexpr double other_records_s = 1;

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
  std::vector<std::pair<int, Record>> read;
  for (auto& [rank, reader] : readers_) {
    if (rank != 0 && !all) continue;
    const auto lines = reader.look();
    if (!lines) continue;  // looked at again; silence has its limit
    for (const auto& line : *lines) {
      auto record = decode_record(line);
      if (!record) {
        if (garbage_++ == 0)
          here_.log.line(fmt::format("rank {}: {}", rank, record.error().what));
      } else if (record->nonce.empty() || record->nonce == here_.spec.nonce) {
        read.emplace_back(rank, *std::move(record));
      }
    }
  }
  return read;
}

}  // namespace shardsweep::agent
