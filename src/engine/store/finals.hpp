// SPDX-License-Identifier: Apache-2.0
// Finals as rows: what the daemon decides their next round from, and what `best` and heatmaps
// read of them.
#pragma once

#include "answer/answer.hpp"
#include "search/finals.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/search_row.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>

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

/// Rows of the trials that are in the sweep file, in the order of the plan.
[[nodiscard]] std::vector<SearchRow> search_rows(
    Database& database, SweepId id, const SweepSpec& sweep);

// Files of knowledge that were imported, as the database keeps them.

/// Deletes knowledge that was forgotten and that no sweep learns from any more.
extern const char* const unused_knowledge_sql;

/// Knowledge that a sweep learns from if it was submitted then, in the order of import.
[[nodiscard]] std::vector<KnowledgeText> knowledge_at(Database& database, Timestamp submitted);

}  // namespace shardsweep::sqlite
