// SPDX-License-Identifier: Apache-2.0
// What measured layouts say about the error of the predictions for others: a Gaussian process
// over ln(measured / predicted) (Rasmussen and Williams, Gaussian Processes for Machine
// Learning, 2006, algorithm 2.1). Layouts that resemble each other are mispredicted alike.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace shardsweep {

/// Where a layout lies: log2 of degrees and sizes, so that one doubling is one unit.
inline constexpr std::size_t feature_count = 10;
using Features = std::array<double, feature_count>;

struct ResidualPrior {
  double shared = 0.3;  ///< standard deviation of what all points of a cell have in common
  double own = 0.3;     ///< of what only similar points have in common
  double noise = 0.02;  ///< of one measurement
};

class ResidualModel {
 public:
  explicit ResidualModel(ResidualPrior prior) : prior_(prior) {}

  /// Observations beyond `most_observations` are not taken.
  void add(const Features& at, double residual);
  /// Other residuals for the same points, in the order in which they were added: the prediction
  /// they are relative to has changed.
  void set_residuals(const std::vector<double>& residuals);
  [[nodiscard]] std::size_t size() const { return points_.size(); }

  struct Belief {
    double mean = 0;
    double sigma = 0;
  };
  /// `row` is scratch that belongs to the point: kept between calls, it saves solving again for
  /// observations that it has seen.
  [[nodiscard]] Belief at(const Features& point, std::vector<double>& row) const;

  static constexpr std::size_t most_observations = 400;

 private:
  [[nodiscard]] double covariance(const Features& a, const Features& b) const;
  /// Element `i` of lower_^-1 k, where `row` holds those before it.
  [[nodiscard]] double solved(const std::vector<double>& row, std::size_t i,
                              double covariance) const;

  ResidualPrior prior_;
  std::vector<Features> points_;
  std::vector<std::vector<double>> lower_;  // Cholesky factor, row by row
  std::vector<double> scaled_;              // lower_^-1 residuals
};

}  // namespace shardsweep
