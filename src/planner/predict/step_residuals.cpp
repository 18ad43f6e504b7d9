// SPDX-License-Identifier: Apache-2.0
#include "predict/step_residuals.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

// Products, memory, host, TP, DP, stages, update, and all of them together.
constexpr std::array<double, 8> prior_sigma{0.1, 0.3, 0.25, 0.4, 0.5, 0.3, 0.3, 0.15};
// What the parts do not explain: of the playbook's runs that are half as fast as their cell's
// best or faster, two thirds lie within it of the prediction.
constexpr double own_sigma = 0.1;
// While learning a point is believed less: its neighbours err together.
constexpr double learning_sigma = 0.4;

}  // namespace

const std::array<double, 8>& part_sigmas() {
  return prior_sigma;
}

StepResiduals::StepResiduals() {
  static_assert(prior_sigma.size() == size);
  for (std::size_t i = 0; i < size; ++i)
    covariance_[i][i] = prior_sigma[i] * prior_sigma[i];
}

StepResiduals::Projection StepResiduals::project(const TimeEstimate& time) const {
  Projection seen{};
  std::copy(time.weights.begin(), time.weights.end(), seen.features.begin());
  seen.features[parts] = 1;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j)
      seen.spread[i] += covariance_[i][j] * seen.features[j];
    seen.mean += mean_[i] * seen.features[i];
    seen.variance += seen.spread[i] * seen.features[i];
  }
  return seen;
}

StepResiduals::Off StepResiduals::predict(const TimeEstimate& time) const {
  const auto seen = project(time);
  return {seen.mean, std::sqrt(std::max(0.0, seen.variance) + own_sigma * own_sigma)};
}

void StepResiduals::learn(const TimeEstimate& time, double log_ratio) {
  const auto seen = project(time);
  const double off = log_ratio - seen.mean;
  double noise = learning_sigma * learning_sigma;
  const double bound = 2 * std::sqrt(seen.variance + noise);
  if (std::abs(off) > bound) noise *= off * off / (bound * bound);
  const double gain = 1 / (seen.variance + noise);
  for (std::size_t i = 0; i < size; ++i) {
    mean_[i] += seen.spread[i] * gain * off;
    for (std::size_t j = 0; j < size; ++j)
      covariance_[i][j] -= seen.spread[i] * seen.spread[j] * gain;
  }
}

}  // namespace shardsweep
