// SPDX-License-Identifier: Apache-2.0
// Finals as rows: what the daemon decides their next round from, and what `best` and heatmaps
// read of them.
#pragma once

#include "answer/answer.hpp"
#include "search/finals.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/store.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::sqlite {

[[nodiscard]] std::vector<FinalsRow> read_finals(
    Database& database, SweepId sweep, std::int32_t nodes);
[[nodiscard]] std::vector<std::string> nodes_of_allocations(
    Database& database, const std::vector<AllocationId>& allocations);
[[nodiscard]] std::vector<std::int32_t> node_counts_of(Database& database, SweepId sweep);
/// Adds trials for these finals and returns their rows, in the caller's transaction.
std::vector<TrialRow> put_finals(
    Database& database, SweepId sweep, const std::vector<NewFinal>& finals);

/// How the finals of a cell have ended, or stand.
struct FinalStanding {
  HeldFinals held;
  std::set<TrialId> measured;  ///< runs in them
};

/// Reads finals where they are asked for, each once.
class FinalStandings {
 public:
  explicit FinalStandings(Database& database);
  /// Finals of this trial's cell; null: it has none, or they lack a layout that was measured later.
  [[nodiscard]] const FinalStanding* of(TrialId trial);

 private:
  using Place = std::pair<SweepId, CellKey>;
  void read(SweepId sweep, std::int32_t nodes);

  Database& database_;
  bool any_ = false;
  std::map<std::pair<SweepId, std::int32_t>, bool> known_;
  std::map<Place, FinalStanding> standings_;
};

}  // namespace shardsweep::sqlite
