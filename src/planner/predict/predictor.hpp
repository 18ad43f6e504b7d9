// SPDX-License-Identifier: Apache-2.0
// What is known of a point before it runs, and what a measurement of one point says about the
// others. One Predictor stands for one cluster and one family of trainers; whoever wants cells
// that do not see each other's results makes one per cell (a copy costs a few kilobytes).
#pragma once

#include "predict/family.hpp"
#include "predict/time_model.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/sweep.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

namespace shardsweep {

// Learns from measurements how far the time model's constants are off. It is a Bayesian linear
// regression of ln(measured / predicted) on the weights of a step's parts. If a part takes exp(x)
// times what the model says, ln(step) moves by weight * x: the coefficients are how far each part
// is off, the prior how far that may be, and what remains is noise.

/// How far each part of a step (TimeEstimate::weights) may be off, in ln(seconds), before
/// anything is measured; the last is what all of them have in common.
[[nodiscard]] const std::array<double, 8>& part_sigmas();

class StepResiduals {
 public:
  StepResiduals();

  struct Off {
    double mean = 0;   ///< mean of ln(measured / predicted)
    double sigma = 0;  ///< spread of a measurement around it
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

/// Reads the `kernel` column of a table: "flash_attn2", "torch", "flash_attn2 + RMS kernel" … A
/// kernel that is named and not known is unknown: it may keep the probabilities or not.
[[nodiscard]] RunTraits traits_of_kernel(std::string_view kernel);

enum class Fit : std::uint8_t {
  fits,      ///< fits by the pessimistic bound too
  doubtful,  ///< the device's memory lies between the bounds
  never,     ///< exceeds even the optimistic bound: the one ground to leave a point out
};

struct MemoryGuess {
  MemoryEstimate estimate;       ///< estimate of the stage that needs most
  std::int64_t lower_bytes = 0;  ///< optimistic
  std::int64_t upper_bytes = 0;  ///< pessimistic
  Fit fit = Fit::fits;           ///< fits too where the cluster's memory is unknown
};

/// Estimates that a guess and a plan's verdict both come from.
struct MemoryBounds {
  MemoryEstimate estimate;    ///< see MemoryGuess
  MemoryEstimate optimistic;  ///< optimistic_memory()
  MemoryEstimate least;       ///< Predictor::least_memory()
};

struct Guess {
  double step_s = 0;     ///< median of the train step
  double log_sigma = 0;  ///< error of ln(step): measured = step_s * exp(+-log_sigma), 68 %
  /// Factor of step_s for an allocator that asks for memory again and again.
  double retries = 1;
  MemoryGuess memory;
  /// Parts of the step before anything was learnt.
  TimeEstimate time;
};

/// One run and how it ended. Of step_s and tokens_per_s_per_gpu one is enough; 0: unknown.
struct Observation {
  ModelSpec model;
  Point point;
  RunTraits traits;
  Outcome outcome = Outcome::completed;
  double step_s = 0;
  double tokens_per_s_per_gpu = 0;
  std::int64_t peak_bytes = 0;
};

class Predictor {
 public:
  Predictor(const ClusterSpec& cluster, const Family& family);

  [[nodiscard]] Guess guess(
      const ModelSpec& model, const Point& point, const RunTraits& traits = {}) const;

  /// Guesses for a point whose memory is known.
  [[nodiscard]] Guess guess(const ModelSpec& model, const Point& point, const MemoryBounds& bounds,
      const RunTraits& traits = {}) const;

  /// The step of a guess without retries, which is never longer: without a thought of memory.
  /// `any_pipeline`: also without its bubble, which other schedules and stages make smaller.
  [[nodiscard]] double least_step_s(
      const ModelSpec& model, const Point& point, bool any_pipeline = false) const;

  /// Corrects a guess of another predictor of the same cluster and family, by what this one has
  /// learnt.
  [[nodiscard]] Guess corrected(Guess guess) const;

  /// Predicts memory, time and speed for a plan; an attempt also has a start-up.
  [[nodiscard]] Prediction predict(
      const ModelSpec& model, const Measure& measure, const Point& point) const;

  /// Memory alone, which no measurement changes.
  [[nodiscard]] MemoryGuess guess_memory(
      const ModelSpec& model, const Point& point, const RunTraits& traits = {}) const;

  /// The optimistic bound by class: MemoryGuess::lower_bytes is its total, or the estimate's
  /// where that is less.
  [[nodiscard]] MemoryEstimate least_memory(
      const ModelSpec& model, const Point& point, const RunTraits& traits = {}) const;

  /// The ground to leave a point out for good: no less is needed, even where the family's
  /// constants are off by as much as it says of them.
  [[nodiscard]] MemoryEstimate certain_memory(
      const ModelSpec& model, const Point& point, const RunTraits& traits = {}) const;

  /// Bounds that guesses and certain_memory() are made of.
  [[nodiscard]] MemoryBounds bounds(
      const ModelSpec& model, const Point& point, const RunTraits& traits = {}) const;
  [[nodiscard]] MemoryEstimate certain_memory(
      const ModelSpec& model, const Point& point, const MemoryBounds& bounds) const;

  /// Peak that the trainer itself would report, without memory outside its allocator. It is the
  /// peak of the stage that the table names, or of the first one if the family's trainers report
  /// that.
  [[nodiscard]] std::int64_t reported_peak_bytes(
      const ModelSpec& model, const Point& point, const RunTraits& traits = {}) const;

  /// Refits. Outcomes other than completed, and runs without a time, say nothing about speed;
  /// same observations in the same order, same predictions.
  void learn(const Observation& seen);

 private:
  [[nodiscard]] const MemoryFamily& memory_family() const;
  [[nodiscard]] MemoryGuess guess_memory(const ModelSpec& model, const MemoryBounds& bounds) const;
  [[nodiscard]] double retries(const MemoryGuess& memory) const;

  ClusterSpec cluster_;
  const Family* family_;
  StepResiduals residuals_;
};

}  // namespace shardsweep
