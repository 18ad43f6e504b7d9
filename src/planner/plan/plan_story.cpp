// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_story.hpp"

#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "search/sweep_search.hpp"

#include <shardsweep/clock.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

/// The chance that one is faster than the first, by what is predicted of both.
double chance_to_beat(const CellSearch::Outlook& one, const CellSearch::Outlook& first) {
  const double off = std::log(one.tokens_per_s_per_gpu / first.tokens_per_s_per_gpu);
  return one.fits * normal_cdf(off / std::hypot(one.sigma, first.sigma));
}

class Story {
 public:
  Story(const SweepSpec& sweep, const Plan& plan)
      : sweep_(sweep), plan_(plan), predictor_(sweep.cluster, family_of(sweep.runner)) {}

  [[nodiscard]] std::vector<PlannedCell> tell() {
    std::map<CellInOrder, PlannedCell> cells;
    std::map<CellInOrder, std::vector<const PlannedTrial*>> trials;
    for (const auto& trial : plan_.trials)
      trials[cell_at(cells, trial.point)].push_back(&trial);
    for (const auto& left : plan_.left_out)
      cells.at(cell_at(cells, left.point)).left_out.push_back(left);
    std::vector<PlannedCell> story;
    for (auto& [key, cell] : cells) {
      tell_launches(trials[key], cell);
      story.push_back(std::move(cell));
    }
    return story;
  }

 private:
  [[nodiscard]] const ModelSpec& model_of(const Point& point) const {
    return sweep_.models.at(static_cast<std::size_t>(point.model));
  }

  CellInOrder cell_at(std::map<CellInOrder, PlannedCell>& cells, const Point& point) const {
    auto key = cell_of(model_of(point), point);
    const auto [found, fresh] = cells.try_emplace(key);
    if (fresh) {
      found->second.model = key.second.model;
      found->second.seq_len = point.seq_len;
      found->second.nodes = point.nodes;
      found->second.gpus = point.gpus;
    }
    return key;
  }

  void tell_launches(const std::vector<const PlannedTrial*>& trials, PlannedCell& cell) const {
    auto settings = sweep_.search;
    const bool searched = settings.policy == SearchPolicy::best_first;
    settings.policy = SearchPolicy::best_first;
    CellSearch search(settings, sweep_.cluster, predictor_);
    for (const auto* trial : trials)
      search.add({.model = model_of(trial->point), .point = trial->point, .traits = {}});
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const auto& trial = *trials[i];
      const auto is = search.outlook(i);
      const double held = static_cast<double>(gpus_held(sweep_.cluster, trial.point));
      cell.launches.push_back({trial.point, is.tokens_per_s_per_gpu, is.sigma, is.fits,
          trial.prediction.attempt_s * held / hour_s,
          searched ? why(i, is, search.outlook(0))
                   : "In the plan's order, because the search policy is exhaustive."});
    }
  }

  static std::string why(
      std::size_t number, const CellSearch::Outlook& is, const CellSearch::Outlook& first) {
    if (number == 0)
      return "Best expected speed for the time that the launch takes, its chance to fit included.";
    return fmt::format("{:.1f} % likely to beat the first.", 100 * chance_to_beat(is, first));
  }

  const SweepSpec& sweep_;
  const Plan& plan_;
  Predictor predictor_;
};

}  // namespace

std::vector<PlannedCell> plan_story(const SweepSpec& sweep, const Plan& plan) {
  return Story(sweep, plan).tell();
}

}  // namespace shardsweep
