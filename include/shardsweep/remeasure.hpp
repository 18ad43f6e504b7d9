// SPDX-License-Identifier: Apache-2.0
// Measuring again: when a sweep has ended, its best layouts run once more from time to time, so
// that whoever watches is told what became slower. A date to come is no open work: it keeps no
// daemon and no command.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

/// Subject that must have changed since the last time; if not, that time passes without a run.
enum class RemeasureOn : std::uint8_t {
  time,    ///< no condition: each time is measured
  runner,  ///< the tree of the runner's snapshot
  image    ///< the file of its container's image
};
SHARDSWEEP_WORDS(RemeasureOn, "time", "runner", "image");

struct Remeasure {
  double every_s = 0;  ///< 0: never
  RemeasureOn on = RemeasureOn::time;
  std::int32_t layouts = 3;  ///< best layouts of each cell
  [[nodiscard]] bool wanted() const { return every_s > 0; }
  friend bool operator==(const Remeasure&, const Remeasure&) = default;
};

inline constexpr double usual_remeasure_s = 86'400;
inline constexpr double least_remeasure_s = 1;
inline constexpr std::int32_t most_remeasured = 16;

}  // namespace shardsweep
