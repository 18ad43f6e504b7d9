// SPDX-License-Identifier: Apache-2.0
#include "fleet/side_runs.hpp"

#include "search/finals.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

using CellRows = std::vector<const FinalsRow*>;

/// The middle of its repeats, of an even number the slower one.
double middle_of(std::vector<double> speeds) {
  std::sort(speeds.begin(), speeds.end());
  return speeds[(speeds.size() - 1) / 2];
}

/// The fastest by its repeats' median; 0: nothing was measured.
TrialId fastest_of(const CellRows& cell) {
  std::map<std::string, std::pair<TrialId, std::vector<double>>> layouts;
  for (const FinalsRow* row : cell) {
    if (row->final_of != 0 || row->tokens_per_s_per_gpu <= 0) continue;
    auto& [trial, speeds] = layouts[row->layout];
    if (speeds.empty()) trial = row->id;
    speeds.push_back(row->tokens_per_s_per_gpu);
  }
  TrialId fastest = 0;
  double speed = 0;
  for (const auto& [layout, runs] : layouts) {
    const double middle = middle_of(runs.second);
    const bool older = middle == speed && runs.first < fastest;
    if (middle < speed || (middle == speed && !older)) continue;
    fastest = runs.first;
    speed = middle;
  }
  return fastest;
}

bool is_made(const CellRows& cell, SideRun side, TrialId of) {
  return std::any_of(cell.begin(), cell.end(),
      [&](const FinalsRow* row) { return row->side == side && row->final_of == of; });
}

/// The winners of finals, by their cell.
std::map<CellKey, TrialId> won_finals(const std::vector<FinalsRow>& rows, const Measure& measure) {
  std::map<CellKey, TrialId> winners;
  if (measure.finalists == 0) return winners;
  const FinalsSettings settings{measure.final_rounds, measure.resolve, measure.node_sets};
  for (const FinalCell& cell : final_cells(rows, static_cast<std::size_t>(measure.finalists))) {
    if (cell.runs.empty()) continue;
    const Finals finals = finals_of(cell.finalists, cell.runs, settings);
    if (!finals.ranking.empty()) winners.emplace(cell.cell, finals.ranking.front());
  }
  return winners;
}

void add_snapshots(const CellRows& cell, std::vector<NewFinal>& due) {
  int made = static_cast<int>(std::count_if(
      cell.begin(), cell.end(), [](const FinalsRow* row) { return row->side == SideRun::memory; }));
  for (const FinalsRow* row : cell) {
    const bool own = row->final_of == 0 && row->out_of_memory;
    if (!own || made >= most_snapshots || is_made(cell, SideRun::memory, row->id)) continue;
    due.push_back({.of = row->id, .round = 0, .set = 0, .side = SideRun::memory});
    ++made;
  }
}

}  // namespace

std::vector<NewFinal> due_side_runs(
    const std::vector<FinalsRow>& rows, const Measure& measure, const SideRuns& wanted) {
  std::map<CellKey, CellRows> cells;
  for (const FinalsRow& row : rows)
    cells[row.cell].push_back(&row);
  const auto winners = won_finals(rows, measure);
  std::vector<NewFinal> due;
  for (const auto& [name, cell] : cells) {
    const bool goes_on = std::any_of(cell.begin(), cell.end(),
        [](const FinalsRow* row) { return row->open && row->side == SideRun::none; });
    if (goes_on) continue;
    const auto won = winners.find(name);
    const TrialId winner = won == winners.end() ? fastest_of(cell) : won->second;
    if (wanted.profile && winner != 0 && !is_made(cell, SideRun::profile, winner))
      due.push_back({.of = winner, .round = 0, .set = 0, .side = SideRun::profile});
    if (wanted.memory) add_snapshots(cell, due);
  }
  return due;
}

}  // namespace shardsweep
