// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rivals.hpp"

#include "predict/predictor.hpp"
#include "search/fit_belief.hpp"
#include "search/speed_belief.hpp"
#include "search/value.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

namespace shardsweep::bench {
namespace {

constexpr double near = 0.99;

/// What is predicted of a row before anything was measured.
struct Expected {
  ResidualInput input;
  double speed = 0;  // ln of tokens/s per GPU
  double fits = 1;
  double step_s = 0;
};

std::vector<Expected> expected_of(const std::vector<RivalRow>& rows, const ReplayOptions& options) {
  const Predictor predictor(options.cluster, *options.family);
  const SpeedBelief places(options.cluster);
  const FitBelief memory(options.cluster.memory_bytes);
  std::vector<Expected> all;
  for (const auto& row : rows) {
    const auto guess = predictor.guess(row.point.model, row.point.point, row.point.traits);
    all.push_back(
        {places.input_of(row.point, guess.time), std::log(speed_of(guess.step_s, row.point.point)),
            memory.fits({guess.memory.lower_bytes, guess.memory.upper_bytes}), guess.step_s});
  }
  return all;
}

double best_of(const std::vector<RivalRow>& rows) {
  double best = 0;
  for (const auto& row : rows)
    best = std::max(best, row.speed);
  return best;
}

/// In a random order of n rows the first of g good ones is number (n + 1) / (g + 1).
double runs_by_chance(const std::vector<RivalRow>& rows) {
  const double enough = near * best_of(rows);
  const auto good = std::count_if(
      rows.begin(), rows.end(), [&](const RivalRow& row) { return row.speed >= enough; });
  return (static_cast<double>(rows.size()) + 1) / (static_cast<double>(good) + 1);
}

double runs_as_predicted(const std::vector<RivalRow>& rows, const std::vector<Expected>& expected) {
  std::vector<std::size_t> order(rows.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  const auto value = [&](std::size_t i) {
    return expected[i].speed + std::log(expected[i].fits + 1e-12);
  };
  std::stable_sort(order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return value(a) > value(b); });
  const double enough = near * best_of(rows);
  double runs = 1;
  for (const auto i : order) {
    if (rows[i].speed >= enough) break;
    ++runs;
  }
  return runs;
}

/// One kernel over degrees and sizes, a shared shift and a normal noise; memory as predicted.
double runs_of_plain_gp(const std::vector<RivalRow>& rows, const std::vector<Expected>& expected,
    const ReplayOptions& options) {
  ResidualModel model(
      {.shared = 0.15, .own = 0.3, .noise = 0.04, .freedom = 1e9, .calibrate = false});
  const LaunchCost cost{.start_s = options.start_s, .oom_s = options.oom_s, .steps = options.steps};
  std::vector<bool> launched(rows.size(), false);
  std::optional<double> best;
  const double enough = std::log(near * best_of(rows));
  double runs = 0;
  while (!best || *best < enough) {
    std::optional<std::size_t> next;
    double most = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (launched[i]) continue;
      const auto& [input, predicted, fits, step_s] = expected[i];
      const auto off = model.posterior(input);
      const std::array<SpeedGuess, 1> guess{{{1, predicted + off.mean, off.sigma}}};
      const double value =
          log_value(log_gain(guess, fits, best), expected_seconds(fits, step_s, cost));
      if (!next || value > most) {
        next = i;
        most = value;
      }
    }
    launched[*next] = true;
    ++runs;
    if (rows[*next].speed <= 0) continue;
    const double speed = std::log(rows[*next].speed);
    best = std::max(best.value_or(speed), speed);
    model.add(expected[*next].input, speed - expected[*next].speed);
    model.fit();
  }
  return runs;
}

/// The best first, then what may most likely beat it by 1 %.
double hours_to_prove(const std::vector<RivalRow>& rows, double noise) {
  const double best = best_of(rows);
  std::vector<std::pair<double, double>> others;  // -chance and hours
  std::optional<double> hours;
  double none = 1;
  for (const auto& row : rows) {
    if (!hours && row.speed == best) {
      hours = row.hours;
    } else if (row.speed > 0) {
      const double chance = normal_cdf((std::log(row.speed / best) - std::log1p(0.01)) / noise);
      others.emplace_back(-chance, row.hours);
      none *= 1 - chance;
    }
  }
  std::sort(others.begin(), others.end());
  constexpr double sure = 0.95;
  for (auto next = others.begin(); next != others.end() && none < sure; ++next) {
    *hours += next->second;
    none /= 1 + next->first;
  }
  return *hours;
}

}  // namespace

RivalScore rivals_of(const std::vector<RivalRow>& rows, const ReplayOptions& options) {
  const auto expected = expected_of(rows, options);
  RivalScore score{.chance = runs_by_chance(rows),
      .predicted = runs_as_predicted(rows, expected),
      .plain_gp = runs_of_plain_gp(rows, expected, options)};
  for (std::size_t i = 0; i < known_noises.size(); ++i)
    score.proof_hours.at(i) = hours_to_prove(rows, known_noises.at(i));
  return score;
}

}  // namespace shardsweep::bench
