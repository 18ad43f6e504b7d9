// SPDX-License-Identifier: Apache-2.0
// Who else could search a cell, on the same rows: chance, the predictions' own order, a plain
// Gaussian process on the predictions, and somebody who knows all speeds but for a noise and has
// to prove it.
#pragma once

#include "search/search_point.hpp"
#include "tools/lab/replay.hpp"

#include <array>
#include <vector>

namespace shardsweep::bench {

/// A row of a cell, as a rival may launch it.
struct RivalRow {
  SearchPoint point;
  double speed = 0;  ///< tokens/s per GPU; 0: it ran out of memory, or failed
  double hours = 0;  ///< GPU-hours of its launch
};

/// Noises of ln(speed) that the one who knows is believed to have.
inline constexpr std::array<double, 3> known_noises{0.02, 0.04, 0.08};

/// Launches until one is within 1 % of the cell's best; GPU-hours until whoever knows all speeds
/// but for a noise is 95 % sure that nothing left is 1 % faster.
struct RivalScore {
  double chance = 0;     ///< on average
  double predicted = 0;  ///< by predicted speed and chance to fit, never changed
  double plain_gp = 0;   ///< expected improvement per second
  std::array<double, known_noises.size()> proof_hours{};
};

/// Of rows with at least one speed.
[[nodiscard]] RivalScore rivals_of(const std::vector<RivalRow>& rows, const ReplayOptions& options);

}  // namespace shardsweep::bench
