// SPDX-License-Identifier: Apache-2.0
#include "search/value.hpp"

#include "predict/time_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardsweep {

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

namespace {

constexpr double least_sigma = 1e-6;

double log_improvement(const SpeedGuess& guess, double best) {
  constexpr double log_root_two_pi = 0.9189385332046727;
  constexpr double far = -6;
  const double sigma = std::max(guess.sigma, least_sigma);
  const double z = (guess.mean - best) / sigma;
  const double log_density = -0.5 * z * z - log_root_two_pi;
  // Mills's ratio: far below the best, z cdf(z) + density(z) is density(z) / z^2.
  if (z < far) return std::log(sigma) + log_density - 2 * std::log(-z);
  return std::log(sigma * (z * normal_cdf(z) + std::exp(log_density)));
}

}  // namespace

double chance_above(SpeedGuesses guesses, double bound) {
  double chance = 0;
  for (const auto& [part, mean, sigma, noise] : guesses) {
    const double variance = std::max(sigma * sigma - noise, least_sigma * least_sigma);
    chance += part * normal_cdf((mean - bound) / std::sqrt(variance));
  }
  return chance;
}

SpeedGuess moments_of(SpeedGuesses guesses) {
  if (guesses.size() == 1) return guesses.front();
  SpeedGuess all;
  for (const auto& guess : guesses)
    all.mean += guess.chance * guess.mean;
  double variance = 0;
  for (const auto& [part, mean, sigma, noise] : guesses)
    variance += part * (sigma * sigma + (mean - all.mean) * (mean - all.mean));
  all.sigma = std::sqrt(variance);
  return all;
}

double log_expected_improvement(SpeedGuesses guesses, double best) {
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;  // relative to the largest: each of them may be too small for a double
  for (const auto& guess : guesses) {
    const double one = std::log(guess.chance) + log_improvement(guess, best);
    if (one <= most) {
      sum += std::exp(one - most);
    } else {
      sum = 1 + sum * std::exp(most - one);
      most = one;
    }
  }
  return guesses.size() == 1 ? most : most + std::log(sum);
}

namespace {
constexpr double far_factor = 2;
constexpr double long_step_s = 10;
}  // namespace

std::int32_t LaunchCost::cut_steps(double step_s, double above_s) const {
  constexpr std::int32_t fewest = 2;
  const bool early = step_s >= long_step_s && step_s > far_factor * above_s;
  return std::min(steps, (early ? 0 : warmup) + fewest);
}

void CostBelief::observe(const Point& point, const SearchNews& news) {
  if (news.seconds <= 0) return;
  if (news.outcome == Outcome::oom) {
    cost_.oom_s += (news.seconds - cost_.oom_s) / ++ooms_;
  } else if (news.outcome == Outcome::completed && news.tokens_per_s_per_gpu > 0 &&
      !news.cut_short) {
    const double step_s = speed_of(1, point) / news.tokens_per_s_per_gpu;
    const double start_s = std::max(0.0, news.seconds - cost_.steps * step_s);
    cost_.start_s += (start_s - cost_.start_s) / ++starts_;
  }
}

double expected_seconds(double fits, double step_s, const LaunchCost& cost) {
  return fits * (cost.start_s + cost.steps * step_s) + (1 - fits) * cost.oom_s;
}

double log_gain(SpeedGuesses speeds, double fits, const std::optional<double>& best) {
  constexpr double impossible = 1e-12;
  return (best ? log_expected_improvement(speeds, *best) : moments_of(speeds).mean) +
      std::log(fits + impossible);
}

double log_value(double log_gain, double seconds) {
  return log_gain - std::log(std::max(seconds, 1e-3));
}

}  // namespace shardsweep
