// SPDX-License-Identifier: Apache-2.0
#include "search/final_cells.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

struct Gathered {
  std::vector<std::pair<double, TrialId>> layouts;  ///< by -speed
  std::vector<FinalRun> runs;
};

FinalRun run_of(const FinalsRow& row) {
  return {.layout = row.final_of,
          .round = row.final_round,
          .allocation = row.allocation,
          .speed = row.open ? 0 : row.tokens_per_s_per_gpu,
          .sm_clock_mhz = row.sm_clock_mhz,
          .throttled = row.throttled,
          .open = row.open,
          .cancelled = row.cancelled,
          .set = std::max(row.final_set, 1),
          .skipped = row.skipped};
}

FinalCell cell_of(std::string name, Gathered gathered, std::size_t most) {
  std::set<TrialId> have_run;
  for (const FinalRun& run : gathered.runs)
    have_run.insert(run.layout);
  std::sort(gathered.layouts.begin(), gathered.layouts.end());
  FinalCell cell{.cell = std::move(name)};
  std::size_t missed = 0;
  for (const auto& [speed, layout] : gathered.layouts) {
    const bool chosen = most > 0 ? cell.finalists.size() < most : have_run.contains(layout);
    if (!chosen) {
      ++missed;
      continue;
    }
    cell.finalists.push_back(layout);
    cell.holds = missed == 0;
  }
  std::copy_if(gathered.runs.begin(), gathered.runs.end(), std::back_inserter(cell.runs),
               [&](const FinalRun& run) {
                 return std::find(cell.finalists.begin(), cell.finalists.end(), run.layout) !=
                        cell.finalists.end();
               });
  return cell;
}

}  // namespace

std::vector<FinalCell> final_cells(const std::vector<FinalsRow>& rows, std::size_t most) {
  std::map<std::string, Gathered> cells;
  for (const FinalsRow& row : rows) {
    Gathered& cell = cells[row.cell];
    if (row.final_of != 0) {
      cell.runs.push_back(run_of(row));
    } else if (row.tokens_per_s_per_gpu > 0) {
      cell.layouts.emplace_back(-row.tokens_per_s_per_gpu, row.id);
    }
  }
  std::vector<FinalCell> all;
  all.reserve(cells.size());
  for (auto& [name, gathered] : cells)
    all.push_back(cell_of(name, std::move(gathered), most));
  return all;
}

}  // namespace shardsweep
