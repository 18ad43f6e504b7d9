// SPDX-License-Identifier: Apache-2.0
// What measured layouts say about the error of the predictions for others: a Gaussian process
// over ln(measured / predicted) with Student's t noise (Rasmussen and Williams, Gaussian
// Processes for Machine Learning, 2006, algorithm 2.1 and sections 4.2, 5.4 and 9.1). Four
// kinds of error are told apart: a part of the step that takes longer than the model says, in
// all layouts by its share in them; what all layouts of a cell have in common; what those have
// in common that share one value (a micro-batch, a degree, a mechanism); and what only layouts
// have that resemble each other. Without the third kind, runs of one side of a cell would seem
// to tell all about the other. Cells of a sweep share the first kind nearly whole
// (they have one machine), of the others a part: a hierarchy of machine, trainer and cell. A
// run may be off by far for reasons of its own (a slow network that day): it must not condemn
// its neighbours.
#pragma once

#include <shardsweep/axis_table.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsweep {

/// Axes that switch a mechanism of a layout on or set its degree.
inline constexpr const auto& structural_axes = axes_with<AxisUse::structural>;
using Structure = std::array<std::int64_t, structural_axes.size()>;
[[nodiscard]] Structure structure_of(const Point& point);

/// Coordinates of a layout: log2 of degrees and sizes, scaled so that errors within one unit are
/// alike.
inline constexpr std::size_t feature_count = 11;
using Features = std::array<double, feature_count>;
/// One number for each part of a step, as in TimeEstimate::weights; one more for tensor
/// parallelism between nodes.
inline constexpr std::size_t part_count = 8;
using Parts = std::array<double, part_count>;

/// A layout that has been measured, or may be.
struct ResidualInput {
  Features features{};
  Parts parts{};  ///< the share that each part has of the step
  Structure structure{};
  std::int32_t micro_batch = 0;  ///< samples
  std::int32_t cell = 0;         ///< equal in one cell
  bool remembered = false;       ///< measured by another sweep, at another time
};

/// Standard deviations, in ln(speed).
struct ResidualPrior {
  Parts parts{};         ///< error of each part's seconds
  double shared = 0.15;  ///< error that all points of a cell have in common
  double own = 0.2;      ///< error that only similar points have in common
  /// Error that layouts share which have the same micro-batch, or the same value of a structural
  /// axis that varies in the cell. Examples: a kernel that is slow at that size, a schedule that
  /// waits. Without it the claims about made-up machines are true in 92.6 instead of 95.7 %
  /// (bench_planner, 8 seeds).
  double of_value = 0;
  double noise = 0.04;  ///< observation noise, and the error of a layout alone
  double freedom = 3;   ///< degrees of freedom of the noise: the lower, the heavier its tails
  /// Shares of the variances that cells have in common: of what the machine does (its parts,
  /// its unknown rates), of what all layouts of a cell share, of what some layouts share.
  /// With 0.85 for each, claims on links / 4 are true in 93 % instead of 95 (bench_planner, 20
  /// seeds).
  double across_machine = 0.9;
  double across_shared = 0.7;
  double across_layouts = 0.8;
  /// Share of all that which runs of an earlier sweep have in common with those of today: software
  /// and machine may have changed meanwhile. `bench_planner --remember`, made machines: with 0.7
  /// other models' runs save 20 % of the runs, and those of a wrong machine cost none. Before
  /// tensor parallelism between nodes was a part of its own, all of it saved 5 % more than 0.7
  /// and cost 5 % more, and 0.4 saved 4 % less and cost 6 % less.
  double across_sweeps = 0.7;
  /// Unknown rates of a machine: its scale, which all layouts share, and each part's seconds.
  /// Measurements do not make these smaller (`calibrate`): a part that no measured layout has is as
  /// unknown as before.
  double scale = 0;
  Parts unknown{};
  /// Error that layouts share which have the same value of a structural axis, if rates are unknown.
  /// Only axes that vary in the cell (`varies`) count.
  double structure = 0;
  std::array<bool, structural_axes.size()> varies{};
  bool calibrate = true;  ///< fit() judges by the observations how large errors are
};

class ResidualModel {
 public:
  explicit ResidualModel(const ResidualPrior& prior) : prior_(prior) {}

  /// Beyond `most_observations` it takes the place of one that resembles another.
  void add(const ResidualInput& input, double residual);
  /// Makes fit() judge the scales by all observations so far; add() does so now and then.
  void calibrate_by_all();
  /// Fits noise and scales to the observations. Call it between add() and posterior(). The result
  /// follows from the observations and their order, and not from earlier calls.
  void fit();
  /// True if fit() judges the scales anew.
  [[nodiscard]] bool calibrates_next() const { return calibrated_by_ != calibrate_by_; }
  /// False while fit() has had too few observations to judge the scales by.
  [[nodiscard]] bool is_calibrated() const { return calibrated_by_ > 0; }
  [[nodiscard]] std::size_t size() const { return inputs_.size(); }
  static constexpr std::size_t most_observations = 200;

  struct Posterior {
    double mean = 0;
    double sigma = 0;  ///< standard deviation of what a run would measure there
    double noise = 0;  ///< variance of a single run, a part of sigma²
  };
  [[nodiscard]] Posterior posterior(const ResidualInput& input) const;

 private:
  /// Factors on the prior's standard deviations.
  struct Scales {
    double errors = 1;
    double links = 1;  ///< factor for parts that wait for a network, on top of `errors`
    double noise = 1;
  };
  /// Kernel of two layouts by terms. Scales multiply `errors` and `links`, and not the others.
  struct Covariance {
    double errors = 0;
    double links = 0;
    double unknown = 0;
    double common = 0;  ///< covariance of a machine's scale, per variance of that scale
  };

  [[nodiscard]] Covariance covariance(const ResidualInput& a, const ResidualInput& b) const;
  [[nodiscard]] double scaled(const Covariance& covariance, const Scales& scales) const;
  [[nodiscard]] double correlation(std::size_t a, std::size_t b) const;
  void drop_most_alike();
  [[nodiscard]] double prior_mean() const;
  [[nodiscard]] double noise_variance() const;
  void solve(std::vector<double>& x, std::size_t first) const;
  void factor();
  void invert();
  void fit_noise();
  void calibrate();
  [[nodiscard]] double log_predictive_density();

  static constexpr std::size_t fewest_to_calibrate = 3;

  ResidualPrior prior_;
  Scales scales_;
  bool fitted_ = true;
  std::size_t calibrate_by_ = 0;   // how many observations are to judge the scales
  std::size_t calibrated_by_ = 0;  // how many have
  std::size_t count_ = 0;          // observations that all that follows is of, the first ones
  std::vector<ResidualInput> inputs_;
  std::vector<double> residuals_;
  std::vector<double> noise_;                        // variance of each observation's
  std::vector<std::vector<Covariance>> covariance_;  // lower triangle
  std::vector<double> lower_;                        // Cholesky factor of K, column by column
  std::vector<double> solved_;                       // lower_^-1 residuals
  std::vector<double> inverse_residuals_;            // K^-1 residuals
  std::vector<double> inverse_diagonal_;             // diagonal of K^-1
};

}  // namespace shardsweep
