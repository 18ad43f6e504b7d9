// SPDX-License-Identifier: Apache-2.0
#include "answer/leaders.hpp"

#include <utility>

namespace shardsweep {

std::optional<HeldFinals> held_finals(
    const FinalCell& cell, const std::vector<FinalsRow>& rows, const FinalsSettings& settings) {
  if (!cell.holds || cell.finalists.size() < 2) return std::nullopt;
  HeldFinals held{finals_of(cell.finalists, cell.runs, settings), settings, {}};
  if (held.finals.verdicts.front().share.pairs == 0) return std::nullopt;
  for (const FinalsRow& row : rows) {
    if (row.final_of != 0 && row.again == 0 && row.tokens_per_s_per_gpu > 0)
      held.runs[row.final_of].push_back(row.id);
  }
  return held;
}

std::map<CellKey, CellAnswer> answers_of(
    const std::vector<FinalsRow>& rows, const FinalsSettings& settings) {
  std::map<CellKey, std::map<std::string, LayoutRuns>> cells;
  for (const FinalsRow& row : rows) {
    if (row.side != SideRun::none || row.again > 0 || row.tokens_per_s_per_gpu <= 0) continue;
    auto& layout = cells[row.cell][row.layout];
    layout.name = row.layout;
    layout.runs.push_back({.trial = row.id,
        .tokens_per_s_per_gpu = row.tokens_per_s_per_gpu,
        .sm_clock_mhz = row.sm_clock_mhz});
  }
  std::map<CellKey, HeldFinals> finals;
  for (const FinalCell& cell : final_cells(rows, 0)) {
    if (auto held = held_finals(cell, rows, settings)) finals.emplace(cell.cell, *std::move(held));
  }
  std::map<CellKey, CellAnswer> answers;
  for (auto& [name, layouts] : cells) {
    CellRuns cell;
    for (auto& [layout, runs] : layouts)
      cell.layouts.push_back(std::move(runs));
    if (const auto held = finals.find(name); held != finals.end()) cell.finals = &held->second;
    answers.emplace(name, answer_of(cell));
  }
  return answers;
}

}  // namespace shardsweep
