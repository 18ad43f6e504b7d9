// SPDX-License-Identifier: Apache-2.0
#include "report/cell_layouts.hpp"

#include "text/content_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

bool is_ranked_trial(const Rows& trials, std::size_t row) {
  return trials.number(row, "tokens_per_s_per_gpu") && trials.text(row, "mark").empty();
}

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

/// Of {"nvls":1,"algo":"ring"} "nvls=1 algo=ring".
std::string vars_text(std::string_view json) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (quoted && json[i] == '\\' && i + 1 < json.size()) {
      text += json[++i];
    } else if (json[i] == '"') {
      quoted = !quoted;
    } else if (quoted) {
      text += json[i];
    } else if (json[i] != '{' && json[i] != '}') {
      text += json[i] == ':' ? '=' : json[i] == ',' ? ' ' : json[i];
    }
  }
  return text;
}

std::string name_of_layout(const Rows& trials, std::size_t row) {
  const auto vars = vars_text(trials.text(row, "vars"));
  return trials.text(row, "layout") + (vars.empty() ? "" : " " + vars);
}

/// Runs of one layout alone have the same: all axes and vars but the repeat are in it, and what
/// ranks found set of NCCL and the allocator.
std::string key_of_layout(const Rows& trials, std::size_t row) {
  return name_of_layout(trials, row) + '\x1f' + trials.text(row, "lane") + '\x1f' +
         trials.text(row, "settings");
}

MeasuredLayout measured_layout(const Rows& trials, std::vector<std::size_t> runs) {
  const auto speed = [&trials](std::size_t row) {
    return trials.number(row, "tokens_per_s_per_gpu").value_or(0);
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](std::size_t a, std::size_t b) { return speed(a) < speed(b); });
  MeasuredLayout layout{name_of_layout(trials, runs.front()), {}, std::move(runs), 0};
  layout.median_run = layout.runs[(layout.runs.size() - 1) / 2];
  layout.ranked.value = speed(layout.median_run);
  layout.ranked.runs = static_cast<std::int64_t>(layout.runs.size());
  layout.ranked.resolution = trials.number(layout.median_run, "resolution").value_or(0);
  if (layout.runs.size() > 1 && layout.ranked.value > 0)
    layout.ranked.spread =
        (speed(layout.runs.back()) - speed(layout.runs.front())) / layout.ranked.value;
  return layout;
}

void rank_layouts(const Rows& trials, CellLayouts& cell) {
  std::map<std::string, std::vector<std::size_t>> runs;
  for (const auto row : cell.trials) {
    if (is_ranked_trial(trials, row)) runs[key_of_layout(trials, row)].push_back(row);
  }
  for (auto& [key, rows] : runs)
    cell.layouts.push_back(measured_layout(trials, std::move(rows)));
  // Of two that are alike the older trial counts, as in a heatmap and in `best`.
  const auto place = [&trials](const MeasuredLayout& layout) {
    return std::tuple(-layout.ranked.value, trials.integer(layout.median_run, "trial_id"),
                      layout.median_run);
  };
  std::sort(cell.layouts.begin(), cell.layouts.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
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
  std::vector<Ranked> all;
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto found = rows_of.find({heatmap.rows[r], heatmap.columns[c]});
      if (found == rows_of.end()) continue;
      CellLayouts cell{r, c, {}, found->second};
      rank_layouts(trials, cell);
      for (const auto& layout : cell.layouts)
        all.push_back(layout.ranked);
      result.cells.push_back(std::move(cell));
    }
  }
  result.common_noise = common_noise(all);
  return result;
}

}  // namespace shardsweep
