// SPDX-License-Identifier: Apache-2.0
// The one place that asks the system what time it is.
#include <shardsweep/clock.hpp>

namespace shardsweep {

Timestamp SystemClock::now() const {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

std::chrono::steady_clock::time_point SystemClock::steady() const {
  return std::chrono::steady_clock::now();
}

}  // namespace shardsweep
