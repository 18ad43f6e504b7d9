// SPDX-License-Identifier: Apache-2.0
// Between timestamps, which count microseconds, and the limits of a policy, which are seconds.
#pragma once

#include <shardsweep/clock.hpp>

#include <cmath>

namespace shardsweep {

[[nodiscard]] constexpr double to_seconds(Timestamp microseconds) {
  return static_cast<double>(microseconds) / 1e6;
}
[[nodiscard]] inline Timestamp to_microseconds(double seconds) {
  return static_cast<Timestamp>(std::llround(seconds * 1e6));
}

}  // namespace shardsweep
