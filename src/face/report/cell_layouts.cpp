// SPDX-License-Identifier: Apache-2.0
#include "report/cell_layouts.hpp"

#include "text/content_hash.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace shardsweep {
namespace {

std::string runner_of(const Rows& trials, std::size_t row) {
  const auto version = trials.text(row, "runner_version");
  return trials.text(row, "runner") + (version.empty() ? "" : " " + version);
}

/// Where several programs go by its name, the heatmap says which it shows.
bool is_shown(const std::set<std::string>& runners, const Rows& trials, std::size_t row) {
  const auto name = runner_of(trials, row);
  return runners.contains(name) ||
         runners.contains(with_code(name, trials.text(row, "code_hash")));
}

/// As the heatmap chooses it.
std::string usual_seq_len(const Rows& trials) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> seen;
  for (std::size_t row = 0; row < trials.size(); ++row) {
    auto& [completed, all] = seen[trials.text(row, "seq_len")];
    completed += trials.text(row, "outcome") == "completed" ? 1 : 0;
    ++all;
  }
  std::string usual;
  std::pair<std::int64_t, std::int64_t> most{-1, -1};
  for (const auto& [seq_len, counts] : seen) {
    if (counts > most) {
      most = counts;
      usual = seq_len;
    }
  }
  return usual;
}

using RowsOfTrials = std::unordered_map<std::int64_t, std::size_t>;

RowsOfTrials rows_of_trials(const Rows& trials) {
  RowsOfTrials rows;
  for (std::size_t row = 0; row < trials.size(); ++row)
    rows.emplace(trials.integer(row, "trial_id"), row);
  return rows;
}

MeasuredLayout measured_layout(const Rows& trials, const AnsweredLayout& answered,
                               const RowsOfTrials& rows) {
  MeasuredLayout layout;
  layout.name = answered.name;
  for (const auto trial : answered.runs) {
    if (const auto row = rows.find(trial); row != rows.end())
      layout.runs.push_back(row->second);
  }
  const auto median = rows.find(answered.trial);
  if (median == rows.end()) return layout;
  layout.median_run = median->second;
  layout.ranked = {.value = answered.tokens_per_s_per_gpu,
                   .runs = std::ssize(answered.runs),
                   .spread = answered.spread,
                   .resolution = trials.number(layout.median_run, "resolution").value_or(0)};
  layout.verdict = answered.verdict;
  return layout;
}

}  // namespace

LayoutsOfCells layouts_of_cells(const Heatmap& heatmap, const Rows& trials) {
  const auto seq_len = usual_seq_len(trials);
  const std::set<std::string> shown(heatmap.runners.begin(), heatmap.runners.end());
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> rows_of;
  for (std::size_t row = 0; row < trials.size(); ++row) {
    if (trials.text(row, "seq_len") != seq_len || !is_shown(shown, trials, row)) continue;
    rows_of[{trials.text(row, heatmap.row_name), trials.text(row, heatmap.column_name)}]
        .push_back(row);
  }
  LayoutsOfCells result;
  const auto places = rows_of_trials(trials);
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto found = rows_of.find({heatmap.rows[r], heatmap.columns[c]});
      if (found == rows_of.end()) continue;
      CellLayouts cell{r, c, {}, found->second};
      for (const auto& layout : heatmap.cells[r][c].answer.layouts) {
        auto one = measured_layout(trials, layout, places);
        if (!one.runs.empty()) cell.layouts.push_back(std::move(one));
      }
      result.cells.push_back(std::move(cell));
    }
  }
  return result;
}

}  // namespace shardsweep
