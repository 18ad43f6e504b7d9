// SPDX-License-Identifier: Apache-2.0
// What measurements say of the time model's constants: a Bayesian linear regression of
// ln(measured / predicted) on the weights of a step's parts. If a part takes exp(x) times what
// the model says, ln(step) moves by weight * x: the coefficients are how far each part is off,
// the prior how far that may be, and what remains is noise.
#pragma once

#include "predict/time_model.hpp"

#include <array>
#include <cstddef>
#include <tuple>

namespace shardsweep {

/// How far each part of a step (TimeEstimate::weights) may be off, in ln(seconds), before
/// anything is measured; the last is what all of them have in common.
[[nodiscard]] const std::array<double, 8>& part_sigmas();

class StepResiduals {
 public:
  StepResiduals();

  struct Off {
    double mean = 0;   ///< of ln(measured / predicted)
    double sigma = 0;  ///< of a measurement around it
  };
  [[nodiscard]] Off predict(const TimeEstimate& time) const;

  /// One measurement; an outlier (beyond two sigma) counts the less the farther it is off.
  void learn(const TimeEstimate& time, double log_ratio);

 private:
  static constexpr std::size_t parts = std::tuple_size_v<decltype(TimeEstimate::weights)>;
  static constexpr std::size_t size = parts + 1;  // and one that all steps share
  using Row = std::array<double, size>;

  struct Projection {
    Row features;
    Row spread;  // covariance times features
    double mean;
    double variance;
  };
  [[nodiscard]] Projection project(const TimeEstimate& time) const;

  Row mean_{};
  std::array<Row, size> covariance_{};
};

}  // namespace shardsweep
