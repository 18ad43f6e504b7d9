// SPDX-License-Identifier: Apache-2.0
// A search that has observed the runs foretells larger jobs as it foretells the next run of a
// sweep. How far its interval can be trusted is measured, not assumed: each world that has run
// is foretold from smaller ones, no farther apart than what is asked for, and the worst
// surprise says how wide the interval has to be.
//
// Decision: Why it is measured: on a published table a model's own interval held 70 % in place
// of 95 %.
#include "search/extrapolation.hpp"

#include "search/sweep_search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace shardsweep {
namespace {

constexpr double sigmas_of_95 = 1.96;

SweepSearch search_with(
    const ClusterSpec& cluster, const Predictor& predictor, std::span<const Experience> known) {
  SweepSearch search({.policy = SearchPolicy::best_first}, cluster, predictor);
  for (const Experience& one : known)
    search.learn(one.point, one.news);
  return search;
}

bool has_speed(const Experience& one) {
  return one.news.outcome == Outcome::completed && one.news.tokens_per_s_per_gpu > 0 &&
      !one.news.cut_short;
}

std::set<std::int32_t> worlds_of(std::span<const Experience> known) {
  std::set<std::int32_t> worlds;
  for (const Experience& one : known) {
    if (has_speed(one)) worlds.insert(one.point.point.gpus);
  }
  return worlds;
}

/// Error of each run of this world, in standard deviations, if runs of at most `most` GPUs foretell
/// it.
std::vector<double> surprises(const ClusterSpec& cluster, const Predictor& predictor,
    std::span<const Experience> known, std::int32_t world, std::int32_t most) {
  std::vector<double> off;
  std::vector<Experience> smaller;
  std::copy_if(known.begin(), known.end(), std::back_inserter(smaller),
      [&](const Experience& one) { return one.point.point.gpus <= most; });
  auto search = search_with(cluster, predictor, smaller);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Experience& one = known[i];
    if (one.point.point.gpus != world || !has_speed(one)) continue;
    const auto id = static_cast<TrialId>(i);
    search.add({.id = id, .point = one.point});
    const auto outlook = search.outlook_of(id);
    if (!(outlook->tokens_per_s_per_gpu > 0)) continue;
    const double ratio = one.news.tokens_per_s_per_gpu / outlook->tokens_per_s_per_gpu;
    off.push_back(std::abs(std::log(ratio)) / outlook->sigma);
  }
  return off;
}

/// The rank that makes a next value fall below it with a chance of 95 %: split conformal
/// inference (Lei et al., Distribution-free predictive inference for regression, 2018). 0:
/// there are too few.
double bound_of(std::vector<double>& off) {
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(off.size() + 1)));
  if (off.empty() || rank > off.size()) return 0;
  const auto at = off.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(off.begin(), at, off.end());
  return std::max(*at, sigmas_of_95);
}

/// Foretells each world from smaller ones, at most `outward` times apart, and keeps the worst
/// surprise.
Backtest backtest(const ClusterSpec& cluster, const Predictor& predictor,
    std::span<const Experience> known, double outward) {
  const auto worlds = worlds_of(known);
  Backtest test;
  for (const auto world : worlds) {
    for (const auto most : worlds) {
      const double apart = 1.0 * world / most;
      if (apart <= 1 || apart > outward) continue;
      auto off = surprises(cluster, predictor, known, world, most);
      const double bound = bound_of(off);
      if (bound == 0) continue;
      test.runs += off.size();
      test.sigmas = std::max(test.sigmas, bound);
      test.outward = std::max(test.outward, apart);
    }
  }
  return test;
}

}  // namespace

std::vector<ExtrapolatedCell> extrapolate(const ClusterSpec& cluster, const Predictor& predictor,
    std::span<const Experience> known, const std::vector<SearchPoint>& targets) {
  const auto worlds = worlds_of(known);
  if (worlds.empty()) return {};
  auto search = search_with(cluster, predictor, known);
  for (std::size_t i = 0; i < targets.size(); ++i)
    search.add({.id = static_cast<TrialId>(i), .point = targets[i]});
  std::map<CellInOrder, ExtrapolatedCell> cells;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto outlook = search.outlook_of(static_cast<TrialId>(i));
    if (!(outlook->tokens_per_s_per_gpu > 0)) continue;
    cells[cell_of(targets[i].model, targets[i].point)].layouts.push_back(
        {i, outlook->tokens_per_s_per_gpu, outlook->sigma, outlook->fits});
  }
  std::map<std::int32_t, Backtest> tests;
  std::vector<ExtrapolatedCell> all;
  for (auto& [key, cell] : cells) {
    const auto found = tests.try_emplace(static_cast<std::int32_t>(key.second.gpus));
    if (found.second)
      found.first->second = backtest(
          cluster, predictor, known, 1.0 * static_cast<double>(key.second.gpus) / *worlds.rbegin());
    cell.test = found.first->second;
    std::stable_sort(cell.layouts.begin(), cell.layouts.end(),
        [](const auto& a, const auto& b) { return a.promise() > b.promise(); });
    all.push_back(std::move(cell));
  }
  return all;
}

double ExtrapolatedCell::factor_of(const Extrapolation& layout) const {
  return std::exp((test.runs > 0 ? test.sigmas : sigmas_of_95) * layout.sigma);
}

}  // namespace shardsweep
