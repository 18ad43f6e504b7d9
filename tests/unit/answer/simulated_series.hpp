// SPDX-License-Identifier: Apache-2.0
// Series of measurements with a known change, and how somebody fares who looks at a series
// after each new point.
#pragma once

#include "answer/series.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardsweep::testing {

/// What happens to a series beside its noise and its step.
enum class Disturbance : std::uint8_t {
  none,
  drift,  ///< up to 4 % over the series, up or down
  nodes,  ///< two sets of nodes of which one is 4 % slower, in runs of one to ten points
  gaps,   ///< a fifth of the points is missing, and twenty in a row
  spikes  ///< one run in thirty is 3 to 15 % slower, by itself
};

struct SimulatedKind {
  Disturbance disturbance = Disturbance::none;
  double step = 0;  ///< share by which the speed changes, up or down; 0: it does not
  double noise = 0.01;
};

struct SimulatedSeries {
  std::vector<SeriesPoint> points;
  std::optional<std::size_t> step_at;  ///< the first point behind the step
  bool down = false;
};

/// A hundred points, less those that are missing; the step is in the second half, before
/// its last ten.
[[nodiscard]] SimulatedSeries simulated_series(const SimulatedKind& kind, std::uint64_t seed);

/// What was said to somebody who asked after each point.
struct WatchedSeries {
  std::optional<std::size_t> delay;  ///< points behind the step when it was said; none: never
  std::int64_t false_alarms = 0;     ///< changes that were said and are none, each once
  std::int64_t looks = 0;
};

/// After which points somebody looks.
struct Looks {
  std::size_t first = 8;
  std::size_t last = 1000;  ///< or all
};
/// A change is the true one if it is said in the right direction, at most `near` points off.
[[nodiscard]] WatchedSeries watch(
    const SimulatedSeries& series, std::size_t near, Looks looks = {});

}  // namespace shardsweep::testing
