// SPDX-License-Identifier: Apache-2.0
// What a launch is worth, by one number: the expected improvement over the best so far per
// second of the cell's GPUs. How fast a layout is has several answers if it may be one of
// several things: with one kernel or the other, with retries of its allocator or without. Their
// average is a speed that it never has.
#pragma once

#include "search/search_point.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace shardsweep {

/// P(X < x) of the standard normal distribution.
[[nodiscard]] double normal_cdf(double x);

/// Costs of a launch.
struct LaunchCost {
  double start_s = 60;      ///< seconds before its first train step
  double oom_s = 60;        ///< seconds of a launch that runs out of memory
  std::int32_t steps = 13;  ///< train steps, with those that warm up
  std::int32_t warmup = 3;
  /// Factor on the step time of the best above which a launch ends after two timed steps; 0: never.
  double cut_short = 0;
  /// Steps of a launch that ends early, if a step takes `step_s` and the bound is `above_s`: two
  /// timed ones, or two that warm up if they are long and far above the bound (attempt/cut_short).
  [[nodiscard]] std::int32_t cut_steps(double step_s, double above_s) const;
};

/// Costs of launches as learnt here: a mean over runs, in which the expected cost counts as one
/// run.
class CostBelief {
 public:
  explicit CostBelief(const LaunchCost& expected) : cost_(expected) {}
  [[nodiscard]] const LaunchCost& cost() const { return cost_; }
  /// A run that was done in `seconds`, or ran out of memory after them; 0: not known.
  void observe(const Point& point, const SearchNews& news);

 private:
  LaunchCost cost_;
  double starts_ = 1;  // how many runs cost_.start_s is the mean of
  double ooms_ = 1;    // and cost_.oom_s
};

/// One answer to how fast a layout is, if it fits: a normal of ln(tokens/s per GPU).
struct SpeedGuess {
  double chance = 1;  ///< probability of this answer; those of a layout add up to 1
  double mean = 0;
  double sigma = 0;  ///< standard deviation of what would be measured
  double noise = 0;  ///< part of that variance which is the run's own
};
using SpeedGuesses = std::span<const SpeedGuess>;

/// The chance that ln(speed) is above `bound`, whatever a run of it would show by chance.
[[nodiscard]] double chance_above(SpeedGuesses guesses, double bound);
/// Mean and standard deviation of all answers together; its chance is 1.
[[nodiscard]] SpeedGuess moments_of(SpeedGuesses guesses);

/// ln of the expected improvement over ln(speed) `best`, in ln(speed) (Jones, Schonlau and
/// Welch 1998, equation 15), over all answers. Finite however hopeless a layout is.
[[nodiscard]] double log_expected_improvement(SpeedGuesses guesses, double best);

/// Expected seconds of a launch.
[[nodiscard]] double expected_seconds(double fits, double step_s, const LaunchCost& cost);

/// ln of expected improvement x chance to fit: what a launch that takes no time would be worth.
/// The chance as a factor is Gardner et al. 2014, equation 6. If nothing was measured (no best)
/// the mean speed itself is the improvement. `speeds` is never empty.
[[nodiscard]] double log_gain(SpeedGuesses speeds, double fits, const std::optional<double>& best);

/// ln of a launch's value: its gain per second (Snoek, Larochelle and Adams 2012, section 3.2). An
/// OOM costs what it costs: a doubtful layout is cheap to try.
[[nodiscard]] double log_value(double log_gain, double seconds);

}  // namespace shardsweep
