// SPDX-License-Identifier: Apache-2.0
#include "domain/search/residuals.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {

double ResidualModel::covariance(const Features& a, const Features& b) const {
  double distance = 0;
  for (std::size_t i = 0; i < feature_count; ++i)
    distance += (a[i] - b[i]) * (a[i] - b[i]);
  return prior_.shared * prior_.shared + prior_.own * prior_.own * std::exp(-0.5 * distance);
}

double ResidualModel::solved(const std::vector<double>& row, std::size_t i,
                             double covariance) const {
  for (std::size_t j = 0; j < i; ++j)
    covariance -= lower_[i][j] * row[j];
  return covariance / lower_[i][i];
}

void ResidualModel::add(const Features& at, double residual) {
  if (points_.size() >= most_observations) return;
  std::vector<double> row;
  double rest = covariance(at, at) + prior_.noise * prior_.noise;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    row.push_back(solved(row, i, covariance(at, points_[i])));
    rest -= row[i] * row[i];
  }
  constexpr double smallest_variance = 1e-12;
  row.push_back(std::sqrt(std::max(rest, smallest_variance)));
  lower_.push_back(std::move(row));
  points_.push_back(at);
  scaled_.push_back(solved(scaled_, scaled_.size(), residual));
}

void ResidualModel::set_residuals(const std::vector<double>& residuals) {
  scaled_.clear();
  for (std::size_t i = 0; i < points_.size() && i < residuals.size(); ++i)
    scaled_.push_back(solved(scaled_, i, residuals[i]));
}

ResidualModel::Belief ResidualModel::at(const Features& point, std::vector<double>& row) const {
  for (std::size_t i = row.size(); i < points_.size(); ++i)
    row.push_back(solved(row, i, covariance(point, points_[i])));
  Belief belief;
  double variance = covariance(point, point);
  for (std::size_t i = 0; i < row.size(); ++i) {
    belief.mean += row[i] * scaled_[i];
    variance -= row[i] * row[i];
  }
  belief.sigma = std::sqrt(std::max(variance, 0.0));
  return belief;
}

}  // namespace shardsweep
