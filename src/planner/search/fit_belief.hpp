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
  /// A run on such a device has held so much, whatever layout it had: a cluster file may say
  /// less than there is.
  void learn_capacity(std::int64_t held);
  [[nodiscard]] double probability(const Bounds& bounds) const;

 private:
  struct Error {
    double shift;   // ln of the factor
    double offset;  // of the capacity
    double weight;
  };
  /// What one run has said.
  struct Lesson {
    Bounds bounds;  ///< of the number that was reported, where `peak` is known
    bool fitted = true;
    std::int64_t peak = 0;
  };
  void reset();
  void weigh(const Lesson& lesson);
  void take(const Lesson& lesson);
  [[nodiscard]] Bounds on_device(Bounds bounds) const;
  void normalize();
  std::vector<Lesson> lessons_;
  std::int64_t held_ = 0;  // the most that a run has held: a device has at least that
  std::vector<Error> errors_;
  std::vector<Error> likely_;  // without those of no weight
  // By rounded margin and width; what was asked since the last lesson.
  mutable std::unordered_map<std::uint64_t, double> known_;
};

}  // namespace shardsweep
