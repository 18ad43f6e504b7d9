// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_cost.hpp"

#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "predict/time_model.hpp"
#include "search/cell_search.hpp"
#include "search/finals.hpp"
#include "search/sweep_search.hpp"

#include <shardsweep/clock.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::uint64_t plays = 5;
constexpr std::size_t most_trials = 2000;

/// Numbers that are the same with every standard library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}
  [[nodiscard]] double uniform() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  /// Draws from the standard normal distribution, nearly: the sum of twelve uniform numbers.
  [[nodiscard]] double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += uniform();
    return sum;
  }

 private:
  std::mt19937_64 engine_;
};

/// Simulated outcome of a layout.
struct Truth {
  double tokens_per_s_per_gpu = 0;
  bool fits = true;
};

struct RunCost {
  std::int64_t runs = 0;
  double gpu_hours = 0;
};

/// One cell, played once.
class Play {
 public:
  Play(const SweepSpec& sweep, const Predictor& predictor,
      const std::vector<const PlannedTrial*>& trials, std::uint64_t seed)
      : sweep_(sweep),
        trials_(trials),
        cost_(launch_cost(sweep)),
        search_(sweep.search, sweep.cluster, predictor, cost_),
        draws_(seed) {
    for (const auto* trial : trials) {
      const auto& model = sweep.models.at(static_cast<std::size_t>(trial->point.model));
      search_.add({.model = model, .point = trial->point, .traits = {}});
    }
  }

  [[nodiscard]] RunCost play() {
    draw();
    for (auto next = next_launch(); next < trials_.size(); next = next_launch())
      launch(next);
    return spent_;
  }

 private:
  /// Half of the error is shared by the whole cell, because layouts of one model on one machine err
  /// alike.
  void draw() {
    const double of_cell = draws_.normal();
    for (std::size_t number = 0; number < trials_.size(); ++number) {
      const auto is = search_.outlook(number);
      const double off = (of_cell + draws_.normal()) * is.sigma / std::sqrt(2.0);
      truths_.push_back({is.tokens_per_s_per_gpu * std::exp(off), draws_.uniform() < is.fits});
    }
  }

  /// Next trial as the daemon takes it from the search's order; trials_.size(): no trial is worth
  /// it.
  [[nodiscard]] std::size_t next_launch() {
    const auto order = search_.order();
    if (search_.enough(spent_.gpu_hours)) return trials_.size();
    for (const auto number : order) {
      if (search_.ruled_out_by(number) != nullptr) continue;
      if (!search_.wont_fit(number)) return number;
      search_.spare(number);
    }
    return trials_.size();
  }

  void launch(std::size_t number) {
    const auto& point = trials_[number]->point;
    const Truth& is = truths_[number];
    search_.start(number);
    SearchNews news{.outcome = is.fits ? Outcome::completed : Outcome::oom,
        .tokens_per_s_per_gpu = is.fits ? is.tokens_per_s_per_gpu : 0,
        .seconds = cost_.oom_s};
    if (is.fits) {
      const double step_s = tokens_per_step(point) / (is.tokens_per_s_per_gpu * point.gpus);
      news.cut_short = cost_.cut_short > 0 && best_ > cost_.cut_short * is.tokens_per_s_per_gpu;
      const auto steps = news.cut_short
          ? cost_.cut_steps(step_s, cost_.cut_short * step_s * is.tokens_per_s_per_gpu / best_)
          : cost_.steps;
      news.seconds = cost_.start_s + steps * step_s;
      best_ = std::max(best_, is.tokens_per_s_per_gpu);
    }
    search_.end(number, news);
    ++spent_.runs;
    spent_.gpu_hours +=
        news.seconds * static_cast<double>(gpus_held(sweep_.cluster, point)) / hour_s;
  }

  [[nodiscard]] static double tokens_per_step(const Point& point) {
    const auto& layout = point.layout;
    return static_cast<double>(layout.micro_batch) * layout.grad_accum * layout.dp * point.seq_len;
  }

  const SweepSpec& sweep_;
  const std::vector<const PlannedTrial*>& trials_;
  LaunchCost cost_;
  CellSearch search_;
  Draws draws_;
  std::vector<Truth> truths_;
  double best_ = 0;
  RunCost spent_;
};

}  // namespace

LaunchCost launch_cost(const SweepSpec& sweep) {
  constexpr double process_s = 1;
  constexpr double gpu_job_s = 60;
  const double start_s = sweep.cluster.gpu.empty() ? process_s : gpu_job_s;
  return {.start_s = start_s,
      .oom_s = start_s,
      .steps = sweep.measure.warmup + sweep.measure.steps_of_trial(),
      .warmup = sweep.measure.warmup,
      .cut_short = sweep.search.cuts_short() ? sweep.search.cut_short : 0};
}

Rehearsal rehearse(const SweepSpec& sweep, const Plan& plan) {
  const auto& search = sweep.search;
  if (search.policy != SearchPolicy::best_first || search.until.regret <= 0 ||
      plan.trials.size() > most_trials)
    return {};
  std::map<CellInOrder, std::vector<const PlannedTrial*>> cells;
  for (const auto& trial : plan.trials)
    cells[cell_of(sweep.models.at(static_cast<std::size_t>(trial.point.model)), trial.point)]
        .push_back(&trial);
  const Predictor predictor(sweep.cluster, family_of(sweep.runner));
  Rehearsal all;
  for (std::uint64_t seed = 1; seed <= plays; ++seed) {
    RunCost spent;
    for (const auto& [key, trials] : cells) {
      const auto cell = Play(sweep, predictor, trials, seed).play();
      spent.runs += cell.runs;
      spent.gpu_hours += cell.gpu_hours;
    }
    const bool first = seed == 1;
    all.least_runs = first ? spent.runs : std::min(all.least_runs, spent.runs);
    all.most_runs = std::max(all.most_runs, spent.runs);
    all.least_gpu_hours = first ? spent.gpu_hours : std::min(all.least_gpu_hours, spent.gpu_hours);
    all.most_gpu_hours = std::max(all.most_gpu_hours, spent.gpu_hours);
  }
  return all;
}

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
