// SPDX-License-Identifier: Apache-2.0
#include "plan/earlier_runs.hpp"

#include "sweep/layout_text.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

/// Identifies a run of a file by its whole content: two measured speeds never agree to the last
/// digit.
std::string content_of(const EarlierRun& run) {
  const auto& point = run.is.point.point;
  const auto& news = run.is.news;
  std::string text = fmt::format("{} {} {} {} {} {} {} {}", point.gpus, point.nodes, point.seq_len,
      static_cast<int>(point.dtype), static_cast<int>(news.outcome), news.tokens_per_s_per_gpu,
      news.peak_bytes, layout_text(point));
  for (const ShapeField& field : shape_fields)
    text += fmt::format(" {}", run.is.point.model.*field.member);
  return text;
}

bool is_verdict(const SearchRow& row) {
  if (row.outcome == Outcome::oom) return true;
  return row.outcome == Outcome::completed && !row.cut_short && row.tokens_per_s_per_gpu > 0;
}

}  // namespace

std::vector<EarlierRun> earlier_runs(
    const SweepSpec& sweep, std::span<const SearchRow> rows, Timestamp until) {
  std::vector<EarlierRun> runs;
  for (const SearchRow& row : rows) {
    if (!is_verdict(row) || row.ended_at > until) continue;
    Point point = row.point;
    point.vars.clear();
    point.repeat = 1;
    runs.push_back({row.ended_at, row.runner_version,
        {{.model = sweep.models.at(static_cast<std::size_t>(point.model)),
             .point = point,
             .traits = {}},
            {*row.outcome, row.tokens_per_s_per_gpu, row.peak_memory_bytes}}});
  }
  return runs;
}

bool EarlierRuns::is_wanted(const EarlierRun& run) {
  const bool is = !dtypes_ || dtypes_->contains(run.is.point.point.dtype);
  if (!is) ++of_other_dtype_;
  return is;
}

void EarlierRuns::add(std::vector<EarlierRun> runs) {
  for (EarlierRun& run : runs) {
    if (!is_wanted(run)) continue;
    ++seen_[content_of(run)];
    runs_.push_back(std::move(run));
  }
}

void EarlierRuns::add_file(std::vector<EarlierRun> runs) {
  // A trainer that prints rounded speeds may have printed one speed twice.
  std::map<std::string, std::size_t> here;
  for (EarlierRun& run : runs) {
    if (!is_wanted(run)) continue;
    const auto content = content_of(run);
    auto& known = seen_[content];
    if (++here[content] <= known) continue;
    ++known;
    runs_.push_back(std::move(run));
  }
}

std::vector<EarlierRun> EarlierRuns::latest() const {
  auto runs = runs_;
  std::stable_sort(runs.begin(), runs.end(),
      [](const EarlierRun& a, const EarlierRun& b) { return a.ended_at < b.ended_at; });
  if (runs.size() > most) runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(most));
  return runs;
}

}  // namespace shardsweep
