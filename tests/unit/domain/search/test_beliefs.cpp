// SPDX-License-Identifier: Apache-2.0
#include "domain/search/fit_belief.hpp"
#include "domain/search/residuals.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace shardsweep;

namespace {

constexpr ResidualPrior prior{.shared = 0.3, .own = 0.4, .noise = 0.1};

Features at(double x) {
  Features features{};
  features[0] = x;
  return features;
}

double covariance(double distance) {
  return 0.09 + 0.16 * std::exp(-0.5 * distance * distance);
}

}  // namespace

TEST_CASE("without observations a residual is expected to be nothing within the prior") {
  const ResidualModel model(prior);
  std::vector<double> row;
  const auto belief = model.at(at(0), row);
  CHECK(belief.mean == 0);
  CHECK(belief.sigma == doctest::Approx(0.5));
}

TEST_CASE("one observation moves a belief as conditioning two normals does") {
  ResidualModel model(prior);
  model.add(at(0), 0.2);
  std::vector<double> row;
  const auto belief = model.at(at(1.5), row);
  const double weight = covariance(1.5) / (covariance(0) + 0.01);
  CHECK(belief.mean == doctest::Approx(0.2 * weight));
  CHECK(belief.sigma == doctest::Approx(std::sqrt(covariance(0) - covariance(1.5) * weight)));
}

TEST_CASE("two observations move a belief as the inverse of their covariances does") {
  ResidualModel model(prior);
  std::vector<double> row;
  model.add(at(0), 0.5);
  (void)model.at(at(1), row);  // what was solved before the second one is kept
  model.add(at(3), 0.5);
  model.set_residuals({0.2, -0.3});
  const double a = covariance(0) + 0.01;
  const double b = covariance(3);
  const double determinant = a * a - b * b;
  const double first = covariance(1);
  const double second = covariance(2);
  const double mean =
      (first * (a * 0.2 + b * 0.3) + second * (-b * 0.2 - a * 0.3)) / determinant;
  const double known =
      (first * (a * first - b * second) + second * (a * second - b * first)) / determinant;
  std::vector<double> fresh;
  for (auto* scratch : {&row, &fresh}) {
    const auto belief = model.at(at(1), *scratch);
    CHECK(belief.mean == doctest::Approx(mean));
    CHECK(belief.sigma == doctest::Approx(std::sqrt(covariance(0) - known)));
  }
}

TEST_CASE("a layout fits as its bounds say until others of the cell have run") {
  const FitBelief::Bounds below{40, 60, 100};
  const FitBelief::Bounds around{80, 125, 100};
  const FitBelief::Bounds above{150, 300, 100};
  FitBelief belief;
  CHECK(belief.probability(below) > 0.999);
  CHECK(belief.probability(around) == doctest::Approx(0.5).epsilon(0.01));
  CHECK(belief.probability(above) < 0.001);
  CHECK(belief.probability({150, 300, 0}) == 1);
}

TEST_CASE("an OOM makes others of the cell less likely to fit and a success more") {
  const FitBelief::Bounds around{80, 125, 100};
  FitBelief after_oom;
  after_oom.learn({70, 110, 100}, false);
  FitBelief after_success;
  after_success.learn({90, 140, 100}, true);
  CHECK(after_oom.probability(around) < 0.3);
  CHECK(after_success.probability(around) > 0.7);
  // A run that surprised nobody teaches next to nothing.
  FitBelief after_nothing;
  after_nothing.learn({10, 20, 100}, true);
  CHECK(after_nothing.probability(around) == doctest::Approx(0.5).epsilon(0.01));
}
