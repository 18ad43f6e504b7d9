// SPDX-License-Identifier: Apache-2.0
#include "search/value.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

std::int32_t LaunchCost::cut_steps() const {
  constexpr std::int32_t fewest = 2;  // timed
  return std::min(steps, warmup + fewest);
}

namespace {

/// Train steps that are expected of a layout which fits.
double expected_steps(const Prospect& prospect, bool has_best, double best,
                      const LaunchCost& cost) {
  if (!has_best || cost.cut_short <= 0) return cost.steps;
  const double bound = best - std::log(cost.cut_short);
  const double hopeless = normal_cdf((bound - prospect.mean) / std::max(prospect.sigma, 1e-6));
  return cost.steps - hopeless * (cost.steps - cost.cut_steps());
}

}  // namespace

double log_expected_improvement(double mean, double sigma, double best) {
  constexpr double log_root_two_pi = 0.9189385332046727;
  constexpr double far = -6;
  sigma = std::max(sigma, 1e-6);
  const double z = (mean - best) / sigma;
  const double log_density = -0.5 * z * z - log_root_two_pi;
  // Mills's ratio: far below the best, z cdf(z) + density(z) is density(z) / z^2.
  if (z < far) return std::log(sigma) + log_density - 2 * std::log(-z);
  return std::log(sigma * (z * normal_cdf(z) + std::exp(log_density)));
}

double expected_seconds(const Prospect& prospect, bool has_best, double best,
                        const LaunchCost& cost) {
  const double steps = expected_steps(prospect, has_best, best, cost);
  return prospect.fits * (cost.start_s + steps * prospect.step_s) +
         (1 - prospect.fits) * cost.oom_s;
}

double log_value(const Prospect& prospect, bool has_best, double best, const LaunchCost& cost) {
  constexpr double impossible = 1e-12;
  const double improvement =
      has_best ? log_expected_improvement(prospect.mean, prospect.sigma, best) : prospect.mean;
  const double seconds = expected_seconds(prospect, has_best, best, cost);
  return improvement + std::log(prospect.fits * prospect.works + impossible) -
         std::log(std::max(seconds, 1e-3));
}

}  // namespace shardsweep
