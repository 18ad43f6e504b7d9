// SPDX-License-Identifier: Apache-2.0
// How well changes of simulated series are found by somebody who looks after each new point: a
// line for each disturbance and step. Arguments: series of each kind (25), first seed (1).
#include "unit/answer/simulated_series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace {

using namespace shardsweep;
using namespace shardsweep::testing;

struct Tally {
  std::int64_t series = 0;
  std::int64_t steps = 0;
  std::int64_t in_time = 0;
  std::int64_t ever = 0;
  std::int64_t false_alarms = 0;
  std::int64_t looks = 0;
  std::vector<std::size_t> delays;

  void take(const SimulatedSeries& one, const WatchedSeries& watched, std::size_t window) {
    ++series;
    false_alarms += watched.false_alarms;
    looks += watched.looks;
    if (!one.step_at) return;
    ++steps;
    if (!watched.delay) return;
    ++ever;
    delays.push_back(*watched.delay);
    if (*watched.delay <= window) ++in_time;
  }
  void add(const Tally& other) {
    series += other.series;
    steps += other.steps;
    in_time += other.in_time;
    ever += other.ever;
    false_alarms += other.false_alarms;
    looks += other.looks;
    delays.insert(delays.end(), other.delays.begin(), other.delays.end());
  }
};

void print_tally(const char* disturbance, const std::string& step, double noise, std::size_t window,
    Tally tally) {
  std::sort(tally.delays.begin(), tally.delays.end());
  const auto share = [&](std::int64_t count) {
    return tally.steps == 0
        ? std::string("-")
        : fmt::format(
              "{:.0f} %", 100.0 * static_cast<double>(count) / static_cast<double>(tally.steps));
  };
  fmt::print("{:<10} {:>6} {:>6.0f} % {:>7} {:>4} points {:>7} {:>7} {:>13} {:>17.2f}\n",
      disturbance, step, 100 * noise, tally.series, window, share(tally.in_time), share(tally.ever),
      tally.delays.empty() ? std::string("-")
                           : fmt::to_string(tally.delays[tally.delays.size() / 2]),
      100.0 * static_cast<double>(tally.false_alarms) /
          static_cast<double>(std::max<std::int64_t>(tally.looks, 1)));
}

/// All disturbances and steps at one noise, `each` series of them.
void print_noise(double noise, std::uint64_t each, std::uint64_t& seed) {
  constexpr std::array<const char*, 5> names{"none", "drift", "nodes", "gaps", "spikes"};
  const std::size_t window = noise < 0.015 ? 3 : 8;
  Tally all;
  Tally large;
  for (std::size_t disturbance = 0; disturbance < names.size(); ++disturbance) {
    for (const double step : {0.0, 0.01, 0.03, 0.1}) {
      Tally tally;
      for (std::uint64_t i = 0; i < each; ++i) {
        const auto series =
            simulated_series({static_cast<Disturbance>(disturbance), step, noise}, seed++);
        tally.take(series, watch(series, window), window);
      }
      print_tally(names.at(disturbance), step > 0 ? fmt::format("{:.0f} %", 100 * step) : "-",
          noise, window, tally);
      // Lone slow runs are told apart in lines of their own: if one is among the first three
      // points behind a step, nothing can be sure of the step.
      if (static_cast<Disturbance>(disturbance) == Disturbance::spikes) continue;
      all.add(tally);
      if (step >= 0.03) large.add(tally);
    }
  }
  print_tally("the four", ">= 3 %", noise, window, large);
  print_tally("the four", "any", noise, window, all);
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int at, std::uint64_t otherwise) {
    return count > at ? std::strtoull(arguments[at], nullptr, 10) : otherwise;
  };
  const auto each = argument(1, 25);
  std::uint64_t seed = argument(2, 1);
  fmt::print("{:<10} {:>6} {:>8} {:>7} {:>11} {:>7} {:>7} {:>13} {:>17}\n", "beside it", "step",
      "noise", "series", "in time is", "in time", "ever", "median delay", "false alarms/100");
  for (const double noise : {0.01, 0.02})
    print_noise(noise, each, seed);
}
