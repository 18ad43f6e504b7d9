// SPDX-License-Identifier: Apache-2.0
// Measuring again: when a sweep has ended, its best layouts run once more from time to time, so
// that whoever watches is told what became slower. A date to come is no open work: it keeps no
// daemon and no command.
#pragma once

#include <shardsweep/clock.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

struct Remeasure {
  double every_s = 0;        ///< 0: never
  bool on_runner = false;    ///< only if the tree of the runner's snapshot has changed
  std::int32_t layouts = 3;  ///< of each cell, its best
  [[nodiscard]] bool wanted() const { return every_s > 0; }
  friend bool operator==(const Remeasure&, const Remeasure&) = default;
};

inline constexpr double usual_remeasure_s = 86'400;
inline constexpr double least_remeasure_s = 1;
inline constexpr std::int32_t most_remeasured = 16;

}  // namespace shardsweep
