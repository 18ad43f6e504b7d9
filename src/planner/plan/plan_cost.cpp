// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_cost.hpp"

#include "predict/time_model.hpp"
#include "search/finals.hpp"
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
std::map<CellInOrder, std::vector<double>> hours_by_cell(const SweepSpec& sweep, const Plan& plan) {
  std::map<CellInOrder, std::vector<double>> cells;
  for (const auto& trial : plan.trials) {
    const auto& model = sweep.models[static_cast<std::size_t>(trial.point.model)];
    cells[cell_of(model, trial.point)].push_back(trial.prediction.attempt_s *
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

FinalsCost finals_cost(const SweepSpec& sweep, const Plan& plan) {
  FinalsCost cost;
  constexpr std::size_t confirmed = 2;  // a cell's first two finalists
  const auto most = static_cast<std::size_t>(sweep.measure.finalists);
  if (most == 0) return cost;
  cost.rounds_at_most = sweep.measure.final_rounds > 0 ? sweep.measure.final_rounds : most_rounds;
  cost.further_sets = sweep.measure.node_sets - 1;
  std::map<CellInOrder, std::vector<const PlannedTrial*>> cells;
  for (const PlannedTrial& trial : plan.trials)
    cells[cell_of(sweep.models[static_cast<std::size_t>(trial.point.model)], trial.point)]
        .push_back(&trial);
  for (auto& [key, trials] : cells) {
    if (trials.size() < 2) continue;
    std::stable_sort(
        trials.begin(), trials.end(), [](const PlannedTrial* a, const PlannedTrial* b) {
          return a->prediction.tokens_per_s_per_gpu > b->prediction.tokens_per_s_per_gpu;
        });
    trials.resize(std::min(trials.size(), most));
    ++cost.cells;
    cost.runs += static_cast<std::int64_t>(trials.size());
    for (std::size_t place = 0; place < trials.size(); ++place) {
      const PlannedTrial& trial = *trials[place];
      const double longer_s =
          (sweep.measure.steps - sweep.measure.steps_of_trial()) * trial.prediction.train_step_s;
      const double hours = (trial.prediction.attempt_s + longer_s) *
          static_cast<double>(gpus_held(sweep.cluster, trial.point)) / hour_s;
      cost.gpu_hours += hours;
      if (place >= confirmed || sweep.measure.node_sets < 2) continue;
      ++cost.further_runs;
      cost.further_gpu_hours += hours;
    }
  }
  return cost;
}

double hours_of_whole_runs(const SweepSpec& sweep, const Plan& plan, const Rehearsal& likely) {
  const std::int32_t steps = sweep.measure.steps - Measure::first_of_search;
  if (sweep.search.policy != SearchPolicy::best_first || sweep.measure.finalists > 0 || steps <= 0)
    return 0;
  if (likely.played()) {
    SweepSpec shorter = sweep;
    shorter.measure.first = Measure::first_of_search;
    return likely.middle_gpu_hours() - rehearse(shorter, plan).middle_gpu_hours();
  }
  double hours = 0;
  for (const PlannedTrial& trial : plan.trials)
    hours += steps * trial.prediction.train_step_s *
        static_cast<double>(gpus_held(sweep.cluster, trial.point)) / hour_s;
  return hours;
}

}  // namespace shardsweep
