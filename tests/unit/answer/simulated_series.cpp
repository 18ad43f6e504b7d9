// SPDX-License-Identifier: Apache-2.0
#include "unit/answer/simulated_series.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace shardsweep::testing {
namespace {

constexpr std::size_t days = 100;
constexpr std::size_t gap_days = 20;

/// Uniform in [0, 1), the same with every library.
double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}

double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(random)));
  return radius * std::cos(2 * 3.14159265358979323846 * uniform(random));
}

std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return static_cast<std::size_t>(uniform(random) * static_cast<double>(limit));
}

bool same_place(std::size_t a, std::size_t b, std::size_t near) {
  return (a > b ? a - b : b - a) <= near;
}

}  // namespace

SimulatedSeries simulated_series(const SimulatedKind& kind, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  SimulatedSeries series;
  const auto step_day = days / 2 + below(random, days - days / 2 - days / 9);
  series.down = uniform(random) < 0.5;
  const double drift = kind.disturbance == Disturbance::drift
      ? (uniform(random) - 0.5) * 0.08 / static_cast<double>(days)
      : 0;
  const auto gap = below(random, days - gap_days);
  std::size_t stays = 0;
  bool slow_nodes = false;
  for (std::size_t day = 0; day < days; ++day) {
    if (stays == 0) {
      stays = 1 + below(random, 10);
      slow_nodes = !slow_nodes;
    }
    --stays;
    const double missing = uniform(random);
    const double spike = uniform(random);
    const double depth = 0.03 + 0.12 * uniform(random);
    double log_speed = kind.noise * normal(random) + drift * static_cast<double>(day);
    if (kind.step > 0 && day >= step_day)
      log_speed += std::log1p(series.down ? -kind.step : kind.step);
    if (kind.disturbance == Disturbance::gaps &&
        (missing < 1.0 / 5 || (day >= gap && day < gap + gap_days)))
      continue;
    if (kind.disturbance == Disturbance::spikes && spike < 1.0 / 30)
      log_speed += std::log1p(-depth);
    SeriesPoint point{.speed = 1000, .at = static_cast<double>(day)};
    if (kind.disturbance == Disturbance::nodes) {
      point.nodes = slow_nodes ? "n01 n02" : "n07 n08";
      if (slow_nodes) log_speed += std::log1p(-0.04);
    }
    point.speed *= std::exp(log_speed);
    if (kind.step > 0 && day >= step_day && !series.step_at) series.step_at = series.points.size();
    series.points.push_back(std::move(point));
  }
  return series;
}

WatchedSeries watch(const SimulatedSeries& series, std::size_t near, Looks looks) {
  constexpr std::size_t one_alarm = 10;  // points by which the place of a change may still move
  struct Said {
    std::size_t place = 0;
    bool down = false;
  };
  WatchedSeries watched;
  std::vector<Said> said;
  const auto last = std::min(looks.last, series.points.size());
  for (auto count = looks.first; count <= last; ++count) {
    ++watched.looks;
    const std::vector<SeriesPoint> known(
        series.points.begin(), series.points.begin() + static_cast<std::ptrdiff_t>(count));
    for (const auto& change : answer_of_series(known).changes) {
      const auto difference = change.verdict.difference;
      if (difference != Difference::faster && difference != Difference::slower) continue;
      const bool down = difference == Difference::slower;
      const bool is_true = series.step_at && count > *series.step_at && down == series.down;
      if (is_true && !watched.delay && same_place(change.first, *series.step_at, near))
        watched.delay = count - *series.step_at;
      if (is_true && same_place(change.first, *series.step_at, one_alarm)) continue;
      const bool known_alarm = std::any_of(said.begin(), said.end(), [&](const Said& one) {
        return one.down == down && same_place(one.place, change.first, one_alarm);
      });
      if (known_alarm) continue;
      said.push_back({change.first, down});
      ++watched.false_alarms;
    }
  }
  return watched;
}

}  // namespace shardsweep::testing
