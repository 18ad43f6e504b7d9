// SPDX-License-Identifier: Apache-2.0
#include "search/fit_belief.hpp"
#include "search/residuals.hpp"
#include "search/speed_belief.hpp"
#include "search/value.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace shardsweep;

namespace {

// So many degrees of freedom are a normal distribution.
ResidualPrior normal_prior() {
  return {.shared = 0.3,
      .own = 0.4,
      .noise = 0.1,
      .freedom = 1e9,
      .across_machine = 0.5,
      .across_shared = 0.5,
      .across_layouts = 0.5,
      .calibrate = false};
}

ResidualInput at(double x, std::int32_t cell = 0) {
  ResidualInput input;
  input.features[0] = x;
  input.cell = cell;
  return input;
}

double covariance(double distance) {
  return 0.09 + 0.16 * std::exp(-0.5 * distance * distance);
}

constexpr double noise = 0.01;  // variance

}  // namespace

TEST_CASE("without observations a residual is expected to be nothing within the prior") {
  const ResidualModel model(normal_prior());
  const auto belief = model.posterior(at(0));
  CHECK(belief.mean == 0);
  CHECK(belief.sigma == doctest::Approx(std::sqrt(0.25 + noise)));
}

TEST_CASE("one observation moves a belief as conditioning two normals does") {
  ResidualModel model(normal_prior());
  model.add(at(0), 0.2);
  model.fit();
  const auto belief = model.posterior(at(1.5));
  const double weight = covariance(1.5) / (covariance(0) + noise);
  CHECK(belief.mean == doctest::Approx(0.2 * weight));
  CHECK(
      belief.sigma == doctest::Approx(std::sqrt(covariance(0) - covariance(1.5) * weight + noise)));
}

TEST_CASE("two observations move a belief as the inverse of their covariances does") {
  ResidualModel model(normal_prior());
  model.add(at(0), 0.2);
  model.fit();
  model.add(at(3), -0.3);
  model.fit();
  const double a = covariance(0) + noise;
  const double b = covariance(3);
  const double determinant = a * a - b * b;
  const double first = covariance(1);
  const double second = covariance(2);
  const double mean = (first * (a * 0.2 + b * 0.3) + second * (-b * 0.2 - a * 0.3)) / determinant;
  const double known =
      (first * (a * first - b * second) + second * (a * second - b * first)) / determinant;
  const auto belief = model.posterior(at(1));
  CHECK(belief.mean == doctest::Approx(mean));
  CHECK(belief.sigma == doctest::Approx(std::sqrt(covariance(0) - known + noise)));
}

TEST_CASE("what another cell has measured counts by the share that cells have in common") {
  ResidualModel model(normal_prior());
  model.add(at(0, 1), 0.2);
  model.fit();
  const auto belief = model.posterior(at(0));
  const double common = 0.5 * covariance(0);
  CHECK(belief.mean == doctest::Approx(0.2 * common / (covariance(0) + noise)));
  CHECK(belief.sigma > model.posterior(at(0, 1)).sigma);
}

TEST_CASE("what an earlier sweep has measured counts less than what is measured today") {
  auto then = at(0, 1);
  then.remembered = true;
  const auto mean_after = [](const ResidualInput& input) {
    ResidualModel model(normal_prior());
    model.add(input, 0.2);
    model.fit();
    return model.posterior(at(0)).mean;
  };
  CHECK(mean_after(then) == doctest::Approx(0.7 * mean_after(at(0, 1))));
}

TEST_CASE("a part that takes longer does so by its share of a step") {
  auto prior = normal_prior();
  prior.shared = prior.own = 0;
  prior.parts[3] = 0.5;
  ResidualModel model(prior);
  auto half = at(0);
  half.parts[3] = 0.5;
  auto tenth = at(5);
  tenth.parts[3] = 0.1;
  model.add(half, -0.2);
  model.fit();
  CHECK(model.posterior(half).mean < -0.15);
  CHECK(model.posterior(tenth).mean == doctest::Approx(model.posterior(half).mean / 5));
  CHECK(model.posterior(at(9)).mean == 0);
}

TEST_CASE("a run that is off by far does not condemn its neighbours") {
  auto prior = normal_prior();
  prior.freedom = 3;
  ResidualModel wild(prior);
  wild.add(at(0), -3);
  wild.fit();
  ResidualModel mild(prior);
  mild.add(at(0), -0.4);
  mild.fit();
  CHECK(mild.posterior(at(1)).mean < -0.2);
  // By a normal distribution it would be -2.2.
  CHECK(wild.posterior(at(1)).mean > -0.4);
  CHECK(wild.posterior(at(1)).sigma > mild.posterior(at(1)).sigma);
  // Several of them are no accident.
  for (const double x : {1.0, 2.0, 3.0, 4.0})
    wild.add(at(x), -3);
  wild.fit();
  CHECK(wild.posterior(at(2.5)).mean < -1.2);
}

TEST_CASE("three runs say that links are a quarter of what their cluster file has") {
  ResidualPrior prior;
  prior.parts[4] = 0.5;
  const auto waits = [](double x, double share) {
    auto input = at(x);
    input.parts[4] = share;
    return input;
  };
  // Four times the time of a part of a step: ln(1 + 3 share) of the step's.
  const auto slower = [](double share) { return -std::log(1 + 3 * share); };
  ResidualModel model(prior);
  model.add(waits(0, 0), 0);
  model.add(waits(10, 0.3), slower(0.3));
  model.add(waits(20, 0.4), slower(0.4));
  model.fit();
  CHECK(model.posterior(waits(40, 0.35)).mean < 0.85 * slower(0.35));
  CHECK(model.posterior(at(40)).mean > -0.2);
}

TEST_CASE("where the scale is unknown one run shifts all layouts and is no outlier") {
  ResidualPrior prior;
  ResidualModel known(prior);
  prior.scale = 1.4;
  ResidualModel unknown(prior);
  CHECK(unknown.posterior(at(9)).sigma > 1.4);
  for (auto* model : {&known, &unknown}) {
    model->add(at(0), 1.3);
    model->fit();
  }
  CHECK(known.posterior(at(9)).mean < 0.6);
  CHECK(unknown.posterior(at(9)).mean > 1.1);
  CHECK(unknown.posterior(at(9)).sigma < 0.5);
}

TEST_CASE("a part that nobody has measured is as unknown as before") {
  ResidualPrior prior;
  prior.scale = 1.4;
  prior.unknown[3] = 0.8;
  ResidualModel model(prior);
  auto with_part = at(20);
  with_part.parts[3] = 0.5;
  for (const double x : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0})
    model.add(at(x), 1.3);
  model.fit();
  CHECK(model.posterior(with_part).sigma > 0.4);
  CHECK(model.posterior(at(2.5)).sigma < 0.2);
  model.add(with_part, 0.9);
  model.fit();
  CHECK(model.posterior(with_part).sigma < 0.3);
}

TEST_CASE("a structural value that was slow once is slow in other layouts that have it") {
  ResidualPrior prior;
  prior.structure = 0.25;
  prior.varies[1] = true;
  ResidualModel model(prior);
  auto one = at(0);
  auto two = at(20);
  two.structure[1] = 2;
  auto like_two = at(40);
  like_two.structure[1] = 2;
  model.add(one, 0);
  model.add(two, -0.5);
  model.fit();
  CHECK(model.posterior(like_two).mean < -0.1);
  CHECK(model.posterior(at(40)).mean > model.posterior(like_two).mean + 0.1);
}

TEST_CASE("what one value of an axis costs is expected of all layouts that have it") {
  auto prior = normal_prior();
  prior.of_value = 0.3;
  prior.across_layouts = 0.5;
  prior.varies[1] = true;
  const auto input = [](double x, std::int64_t degree, std::int32_t micro_batch) {
    auto one = at(x);
    one.structure[1] = degree;
    one.micro_batch = micro_batch;
    return one;
  };
  ResidualModel model(prior);
  model.add(input(0, 1, 1), -0.5);
  model.fit();
  const double apart = model.posterior(input(20, 2, 2)).mean;
  CHECK(model.posterior(input(20, 1, 2)).mean < apart - 0.05);
  CHECK(model.posterior(input(20, 2, 1)).mean ==
      doctest::Approx(model.posterior(input(20, 1, 2)).mean));
  CHECK(model.posterior(input(20, 2, 2)).sigma > model.posterior(input(20, 1, 1)).sigma + 0.05);
  auto elsewhere = input(20, 1, 2);
  elsewhere.cell = 1;
  CHECK(model.posterior(elsewhere).mean < model.posterior(at(20, 1)).mean + 1e-9);
}

TEST_CASE("three runs that are as predicted do not make the rest certain") {
  ResidualPrior prior;
  ResidualModel model(prior);
  for (const double x : {0.0, 10.0, 20.0})
    model.add(at(x), 0.01 * x / 20);
  model.fit();
  prior.calibrate = false;
  ResidualModel as_told(prior);
  CHECK(model.posterior(at(40)).sigma > 0.6 * as_told.posterior(at(40)).sigma);
}

TEST_CASE("where errors turn out small, what is left is believed to be as predicted") {
  auto prior = normal_prior();
  prior.freedom = 3;
  ResidualModel as_told(prior);
  prior.calibrate = true;
  ResidualModel calibrated(prior);
  for (auto* model : {&as_told, &calibrated}) {
    for (const double x : {0.0, 2.0, 4.0, 6.0, 8.0})
      model->add(at(x), x == 4 ? 0.02 : -0.01);
    model->fit();
  }
  CHECK(calibrated.posterior(at(20)).sigma < 0.7 * as_told.posterior(at(20)).sigma);
}

TEST_CASE("one run in a bad network does not condemn what waits for it and two do") {
  SpeedBelief belief(testing::h100());
  const auto waits = [](double x) {
    auto input = at(x);
    input.parts.back() = 0.6;
    return input;
  };
  const double slower = std::log(120.0 / 275.0);
  belief.observe(waits(0), slower, 0);
  belief.learn();
  CHECK(belief.posterior(waits(4)).mean > 0.65 * slower);
  CHECK(belief.posterior(waits(4)).sigma > 0.15);
  belief.observe(waits(2), slower, 0);
  belief.learn();
  CHECK(belief.posterior(waits(4)).mean < 0.8 * slower);
}

TEST_CASE("a layout fits as its bounds say until others of the cell have run") {
  const FitBelief::Bounds below{40, 60};
  const FitBelief::Bounds around{80, 125};
  const FitBelief::Bounds above{150, 300};
  FitBelief belief(100);
  CHECK(belief.fits(below) > 0.998);
  CHECK(belief.fits(around) == doctest::Approx(0.5).epsilon(0.01));
  CHECK(belief.fits(above) < 0.01);
  CHECK(FitBelief(0).fits({150, 300}) == 1);
}

TEST_CASE("an OOM makes others of the cell less likely to fit and a success more") {
  const FitBelief::Bounds around{80, 125};
  FitBelief after_oom(100);
  after_oom.observe({70, 110}, Outcome::oom);
  FitBelief after_success(100);
  after_success.observe({90, 140}, Outcome::completed);
  CHECK(after_oom.fits(around) < 0.35);
  CHECK(after_success.fits(around) > 0.65);
  // Where nothing fits that should, the family is another's: a few runs say so.
  FitBelief wrong(100);
  for (int i = 0; i < 4; ++i)
    wrong.observe({50, 78}, Outcome::oom);
  CHECK(wrong.fits({55, 80}) < 0.3);
  CHECK(wrong.fits({10, 15}) > 0.99);
  // A run that surprised nobody teaches next to nothing.
  FitBelief after_nothing(100);
  after_nothing.observe({10, 20}, Outcome::completed);
  CHECK(after_nothing.fits(around) == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("memory of earlier sweeps says as much as a few runs, however many there were") {
  const FitBelief::Bounds around{80, 125};
  const auto after = [&](int ooms, double weight) {
    FitBelief belief(100);
    for (int i = 0; i < ooms; ++i)
      belief.remember({60, 90}, Outcome::oom, weight);
    return belief.fits(around);
  };
  FitBelief own(100);
  for (int i = 0; i < 4; ++i)
    own.observe({60, 90}, Outcome::oom);
  CHECK(after(1, 0.5) < 0.49);
  CHECK(after(2, 0.5) < after(1, 0.5));
  CHECK(after(200, 1) == doctest::Approx(own.fits(around)).epsilon(0.01));
  CHECK(after(4, 1) == doctest::Approx(own.fits(around)).epsilon(0.01));
  CHECK(after(1, 0.25) > after(1, 1));

  // Runs of today outweigh them.
  FitBelief belief(100);
  for (int i = 0; i < 200; ++i)
    belief.remember({60, 90}, Outcome::oom, 1);
  const double before = belief.fits(around);
  for (int i = 0; i < 8; ++i)
    belief.observe({85, 120}, Outcome::completed);
  CHECK(belief.fits(around) > before + 0.2);
}

TEST_CASE("an OOM of the sweep is remembered however many layouts ran since") {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  FitBelief belief(80 * gib);
  const FitBelief::Bounds doubtful{70 * gib, 80 * gib};
  belief.observe(doubtful, Outcome::oom);
  const double after = belief.fits(doubtful);
  for (int i = 0; i < 400; ++i)
    belief.observe({1, 1}, Outcome::completed);
  CHECK(belief.fits(doubtful) == doctest::Approx(after));
}

TEST_CASE("it is the same whether memory of earlier sweeps is observed before or after runs") {
  const FitBelief::Bounds around{80, 125};
  FitBelief before(100);
  FitBelief between(100);
  before.remember({60, 90}, Outcome::oom, 0.5);
  before.remember({70, 80}, Outcome::oom, 0.5);
  before.observe({85, 120}, Outcome::completed);
  between.remember({70, 80}, Outcome::oom, 0.5);
  CHECK(between.fits(around) < 0.5);
  between.observe({85, 120}, Outcome::completed);
  between.remember({60, 90}, Outcome::oom, 0.5);
  CHECK(between.fits(around) == doctest::Approx(before.fits(around)));
}

TEST_CASE("a launch is worth its expected improvement, its chances and its seconds") {
  const LaunchCost cost{.start_s = 60, .oom_s = 30, .steps = 10};
  const std::array<SpeedGuess, 1> speeds{{{.chance = 1, .mean = 1, .sigma = 0.3}}};
  const auto value = [&](double fits, double step_s) {
    return std::exp(log_value(log_gain(speeds, fits, 1.2), expected_seconds(fits, step_s, cost)));
  };
  const double all = value(1, 4);
  CHECK(all == doctest::Approx(std::exp(log_expected_improvement(speeds, 1.2)) / 100));
  CHECK(value(0.5, 4) == doctest::Approx(all * 0.5 * 100 / 65));  // 65 seconds are expected
  CHECK(value(1, 14) == doctest::Approx(all / 2));
}

TEST_CASE("an improvement far below the best is small, finite and in order") {
  const auto improvement = [](double mean) {
    return log_expected_improvement(std::array<SpeedGuess, 1>{{{1, mean, 1}}}, 0);
  };
  CHECK(improvement(-5.9) > improvement(-6.1));
  CHECK(improvement(-5.9) - improvement(-6.1) < 1.5);
  CHECK(improvement(-500) > improvement(-501));
  CHECK(std::isfinite(improvement(-500)));
}

TEST_CASE("what may be one of two layouts is as fast as one of them, not as their average") {
  const std::array<SpeedGuess, 2> either{{{0.25, 1, 0.1}, {0.75, 0, 0.1}}};
  const auto all = moments_of(either);
  CHECK(all.mean == doctest::Approx(0.25));
  CHECK(all.sigma == doctest::Approx(std::sqrt(0.01 + 0.25 * 0.75)));
  // Nothing of the slow one is that fast, and a half of the fast one.
  CHECK(chance_above(either, 1) == doctest::Approx(0.125));
  // Four standard deviations beyond both: one normal of them all would say 0.5 %.
  CHECK(chance_above(either, 1.4) < 1e-4);
  const std::array<SpeedGuess, 1> fast{{{1, 1, 0.1}}};
  CHECK(log_expected_improvement(either, 1) ==
      doctest::Approx(std::log(0.25) + log_expected_improvement(fast, 1)));
  // However hopeless both are, and in whichever order.
  const std::array<SpeedGuess, 2> hopeless{{{0.5, -500, 1}, {0.5, -400, 1}}};
  const std::array<SpeedGuess, 2> turned{hopeless[1], hopeless[0]};
  CHECK(std::isfinite(log_expected_improvement(hopeless, 0)));
  CHECK(log_expected_improvement(hopeless, 0) ==
      doctest::Approx(log_expected_improvement(turned, 0)));
}

TEST_CASE("a few runs say how large the noise is, whatever was thought before") {
  // Repeats of three layouts that are far apart.
  const auto after = [](double off) {
    ResidualModel model(ResidualPrior{});
    for (int repeat = 0; repeat < 4; ++repeat) {
      for (const double x : {0.0, 10.0, 20.0})
        model.add(at(x), (repeat % 2 == 0 ? off : -off) * (1 + x / 20) / 1.5);
    }
    model.fit();
    return model.posterior(at(10)).sigma;
  };
  const double quiet = after(0.005);
  CHECK(quiet < 0.04);
  CHECK(after(0.1) > 1.5 * quiet);
}

TEST_CASE("of more runs than it keeps a model drops those that others tell, old or new") {
  ResidualModel model(normal_prior());
  constexpr auto most = static_cast<int>(ResidualModel::most_observations);
  // One far away, many that are alike, and after them one that is far away too.
  model.add(at(-40), -0.5);
  for (int i = 0; i < most + 20; ++i)
    model.add(at(0.001 * i), 0.1);
  model.add(at(40), 0.5);
  model.fit();
  CHECK(model.size() == most);
  const double common = model.posterior(at(80)).mean;
  CHECK(model.posterior(at(-40)).mean < common - 0.3);
  CHECK(model.posterior(at(40)).mean > common + 0.2);
}

TEST_CASE("a model of more runs than it keeps believes the same whenever it was asked") {
  constexpr int runs = 260;
  ResidualModel living({});
  ResidualModel anew({});
  for (int i = 0; i < runs; ++i) {
    const auto input = at(std::fmod(7.3 * i, 40), i % 3);
    const double residual = 0.2 * std::sin(i) + (i % 17 == 0 ? 0.8 : 0);
    living.add(input, residual);
    anew.add(input, residual);
    living.fit();
  }
  anew.fit();
  for (const double x : {0.0, 11.1, 39.9, 80.0}) {
    CHECK(living.posterior(at(x)).mean == anew.posterior(at(x)).mean);
    CHECK(living.posterior(at(x)).sigma == anew.posterior(at(x)).sigma);
  }
}
