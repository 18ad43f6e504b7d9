// SPDX-License-Identifier: Apache-2.0
#include "search/fit_belief.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

// Bounds are this many standard deviations apart on either side; of the error's variance the
// larger part is what a cell's estimates have in common.
constexpr double bound_sigmas = 2;
constexpr double shared_share = 0.7;
// That part has heavy tails, so that a few runs say it where a family or a preset is another's:
// Student's t with three degrees of freedom, in units of the shared standard deviation.
constexpr double half_width = 12;
constexpr double freedom = 3;

struct Scaled {
  double margin;  // ln(capacity / estimate)
  double sigma;   // of ln(bytes)
};

Scaled scaled(const FitBelief::Bounds& bounds) {
  const double lower = std::log(static_cast<double>(std::max<std::int64_t>(bounds.lower, 1)));
  const double upper = std::log(static_cast<double>(std::max<std::int64_t>(bounds.upper, 1)));
  constexpr double narrowest = 0.005;
  return {std::log(static_cast<double>(bounds.capacity)) - (lower + upper) / 2,
          std::max((upper - lower) / 2 / bound_sigmas, narrowest)};
}

double probability_at(const Scaled& scaled, double shift) {
  const double shared = shift * std::sqrt(shared_share) * scaled.sigma;
  return normal_cdf((scaled.margin - shared) / (scaled.sigma * std::sqrt(1 - shared_share)));
}

}  // namespace

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

double FitBelief::shift(std::size_t step) {
  return half_width * (2 * static_cast<double>(step) / (steps - 1) - 1);
}

FitBelief::FitBelief() {
  for (std::size_t i = 0; i < steps; ++i)
    weight_[i] = std::pow(1 + shift(i) * shift(i) / freedom, -0.5 * (freedom + 1));
}

void FitBelief::learn(const Bounds& bounds, bool fitted) {
  if (bounds.capacity <= 0) return;
  const auto at = scaled(bounds);
  // Nothing is ever ruled out: one odd run must not settle all others.
  constexpr double floor = 0.01;
  double sum = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double fits = probability_at(at, shift(i));
    weight_[i] *= floor + (1 - floor) * (fitted ? fits : 1 - fits);
    sum += weight_[i];
  }
  for (auto& weight : weight_)
    weight /= sum;
}

double FitBelief::probability(const Bounds& bounds) const {
  if (bounds.capacity <= 0) return 1;
  const auto at = scaled(bounds);
  double fits = 0;
  double sum = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    fits += weight_[i] * probability_at(at, shift(i));
    sum += weight_[i];
  }
  return fits / sum;
}

}  // namespace shardsweep
