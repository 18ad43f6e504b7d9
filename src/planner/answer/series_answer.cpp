// SPDX-License-Identifier: Apache-2.0
// What the changes of a series say as a whole: the last sure one, the one that stands, the loss.
// And what several series say of each other's noise.
#include "answer/series.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

const SeriesChange* SeriesAnswer::last_sure() const {
  const auto found = std::find_if(changes.rbegin(), changes.rend(),
      [](const SeriesChange& one) { return is_sure(one.verdict); });
  return found == changes.rend() ? nullptr : &*found;
}

const SeriesChange* SeriesAnswer::standing() const {
  const SeriesChange* sure = last_sure();
  const SeriesChange* doubt = nullptr;  // the largest step since then, in the direction of all
  double level = 1;
  const auto since =
      sure == nullptr ? changes.begin() : changes.begin() + (sure - changes.data()) + 1;
  for (auto change = since; change != changes.end(); ++change)
    level *= 1 + change->verdict.share;
  const bool is_back = std::abs(level - 1) <= resolve;
  for (auto change = since; change != changes.end() && !is_back; ++change) {
    const double share = change->verdict.share;
    if ((share < 0) != (level < 1) || std::abs(share) <= resolve || change->verdict.within_rounding)
      continue;
    if (doubt == nullptr || std::abs(share) >= std::abs(doubt->verdict.share)) doubt = &*change;
  }
  // Keep certain changes, except an improvement that a later drop in doubt may have undone.
  const bool hides_a_drop = sure != nullptr && sure->verdict.share > 0 && level < 1;
  return sure == nullptr || (doubt != nullptr && hides_a_drop) ? doubt : sure;
}

double SeriesAnswer::loss() const {
  double level = 1;
  double best = 1;
  for (const auto& change : changes) {
    if (!is_sure(change.verdict)) continue;
    level *= 1 + change.verdict.share;
    best = std::max(best, level);
  }
  return 1 - level / best;
}

namespace {

/// Noise by the runs of one time, over all times of each series.
Noise noise_of_times(const std::vector<std::vector<SeriesPoint>>& series) {
  std::vector<LayoutSpeed> repeated;
  for (const auto& points : series) {
    std::map<std::string, std::vector<double>> times;
    for (const auto& point : points)
      if (!point.time.empty()) times[point.time].push_back(point.speed);
    for (auto& [time, speeds] : times) {
      if (speeds.size() < 2) continue;
      std::sort(speeds.begin(), speeds.end());
      const double middle = speeds[(speeds.size() - 1) / 2];
      repeated.push_back({.value = middle,
          .runs = std::ssize(speeds),
          .spread = (speeds.back() - speeds.front()) / middle});
    }
  }
  // A single pair that differs much would make every interval a hundred times too wide.
  constexpr std::int64_t enough_freedom = 2;
  const auto noise = common_noise(repeated);
  return noise.freedom < enough_freedom ? Noise() : noise;
}

}  // namespace

Noise noise_of_others(const std::vector<std::vector<SeriesPoint>>& series,
    const std::vector<std::vector<SeriesPoint>>& runs) {
  std::vector<double> known;
  Noise noise;
  for (const auto& points : series) {
    if (points.size() < enough_points) continue;
    const auto own = answer_of_series(points).noise;
    known.push_back(own.of_run);
    noise.freedom += own.freedom;
  }
  noise.of_run = median_of(std::move(known));
  return noise.known() ? noise : noise_of_times(runs);
}

}  // namespace shardsweep
