// SPDX-License-Identifier: Apache-2.0
#include "fleet/side_runs.hpp"

#include "answer/leaders.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace shardsweep {
namespace {

using CellRows = std::vector<const FinalsRow*>;

/// The trial that stands for the layout that leads its cell: the finalist, else the first of its
/// repeats. 0: nothing was measured.
TrialId winner_of(const CellRows& cell, const CellAnswer& answer) {
  const auto* winner = answer.winner();
  if (winner == nullptr) return 0;
  for (const FinalsRow* row : cell) {
    const bool is_its = row->layout == winner->name && row->tokens_per_s_per_gpu > 0 &&
        row->side == SideRun::none && row->again == 0;
    if (is_its && answer.by_finals == (row->final_of != 0))
      return answer.by_finals ? row->final_of : row->id;
  }
  return 0;
}

bool is_made(const CellRows& cell, SideRun side, TrialId of) {
  return std::any_of(cell.begin(), cell.end(),
      [&](const FinalsRow* row) { return row->side == side && row->final_of == of; });
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
  const auto answers = answers_of(rows, {measure.final_rounds, measure.resolve, measure.node_sets});
  std::vector<NewFinal> due;
  for (const auto& [name, cell] : cells) {
    const bool goes_on = std::any_of(cell.begin(), cell.end(),
        [](const FinalsRow* row) { return row->open && row->side == SideRun::none; });
    if (goes_on) continue;
    const auto answer = answers.find(name);
    const TrialId winner = answer == answers.end() ? 0 : winner_of(cell, answer->second);
    if (wanted.profile && winner != 0 && !is_made(cell, SideRun::profile, winner))
      due.push_back({.of = winner, .round = 0, .set = 0, .side = SideRun::profile});
    if (wanted.memory) add_snapshots(cell, due);
  }
  return due;
}

}  // namespace shardsweep
