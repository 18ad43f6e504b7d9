// SPDX-License-Identifier: Apache-2.0
#include "plan/search_bound.hpp"

#include "predict/time_model.hpp"
#include "search/sweep_search.hpp"

#include <shardsweep/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace shardsweep {
namespace {

/// GPU-hours of the trials of each cell.
std::map<CellKey, std::vector<double>> hours_by_cell(const SweepSpec& sweep, const Plan& plan) {
  std::map<CellKey, std::vector<double>> cells;
  for (const auto& trial : plan.trials) {
    const auto& model = sweep.models[static_cast<std::size_t>(trial.point.model)];
    cells[cell_of(model, trial.point)].push_back(
        trial.prediction.attempt_s *
        static_cast<double>(gpus_held(sweep.cluster, trial.point)) / hour_s);
  }
  return cells;
}

}  // namespace

SearchBound search_bound(const SweepSpec& sweep, const Plan& plan) {
  const auto& until = sweep.search.until;
  SearchBound bound{static_cast<std::int64_t>(plan.trials.size()), plan.gpu_hours, false};
  if (sweep.search.is_plain() || (until.runs <= 0 && until.gpu_hours <= 0)) return bound;
  bound = {};
  for (auto& [cell, hours] : hours_by_cell(sweep, plan)) {
    std::sort(hours.begin(), hours.end(), std::greater<>());
    const auto all = static_cast<std::int64_t>(hours.size());
    const auto runs = until.runs > 0 ? std::min<std::int64_t>(until.runs, all) : all;
    double spent = 0;
    for (std::int64_t i = 0; i < runs; ++i)
      spent += hours[static_cast<std::size_t>(i)];
    if (until.gpu_hours > 0) spent = std::min(spent, until.gpu_hours + hours.front());
    bound.runs += runs;
    bound.gpu_hours += spent;
  }
  bound.binds = bound.runs < static_cast<std::int64_t>(plan.trials.size()) ||
                bound.gpu_hours < plan.gpu_hours * (1 - 1e-9);
  return bound;
}

}  // namespace shardsweep
