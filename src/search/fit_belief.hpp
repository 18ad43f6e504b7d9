// SPDX-License-Identifier: Apache-2.0
// How likely it is that a layout fits into memory, by the predicted bounds and by what has run
// out of memory, or has not, in the same cell: estimates err alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardsweep {

/// P(X < x) of the standard normal distribution.
[[nodiscard]] double normal_cdf(double x);

/// A distribution over the error that the estimates of one cell share, in ln(bytes).
class FitBelief {
 public:
  FitBelief();

  /// Bounds as the predictor gives them; `capacity` 0: unknown, everything fits.
  struct Bounds {
    std::int64_t lower = 0;
    std::int64_t upper = 0;
    std::int64_t capacity = 0;
  };
  void learn(const Bounds& bounds, bool fitted);
  [[nodiscard]] double probability(const Bounds& bounds) const;

 private:
  static constexpr std::size_t steps = 81;
  [[nodiscard]] static double shift(std::size_t step);
  std::array<double, steps> weight_{};
};

}  // namespace shardsweep
