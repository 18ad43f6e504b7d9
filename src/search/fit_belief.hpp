// SPDX-License-Identifier: Apache-2.0
// How likely it is that a layout fits into memory: by the predicted bounds, and by what has run
// out of memory, has not, or has reported its peak in the same sweep. Estimates of one trainer
// err alike: by a factor and by an amount that all layouts share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace shardsweep {

/// A distribution over the error that the estimates of a trainer share.
class FitBelief {
 public:
  FitBelief();

  /// Bounds as the predictor gives them; `capacity` 0: unknown, everything fits.
  struct Bounds {
    std::int64_t lower = 0;
    std::int64_t upper = 0;
    std::int64_t capacity = 0;
  };
  /// Whether a layout of these bounds ran or ran out of memory: its need is known to be below,
  /// or above, the capacity.
  void learn(const Bounds& bounds, bool fitted);
  /// What one that ran has reported as its peak, where `reported` are the bounds of that
  /// number. More than predicted is a need; less may be what the trainer does not count.
  void learn_peak(const Bounds& reported, std::int64_t peak);
  [[nodiscard]] double probability(const Bounds& bounds) const;

 private:
  struct Error {
    double shift;   // ln of the factor
    double offset;  // of the capacity
    double weight;
  };
  void normalize();
  std::vector<Error> errors_;
  // By rounded margin and width; what was asked since the last lesson.
  mutable std::unordered_map<std::uint64_t, double> known_;
};

}  // namespace shardsweep
