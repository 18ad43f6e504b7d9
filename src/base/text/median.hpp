// SPDX-License-Identifier: Apache-2.0
// The middle of values: one rule for an odd number of them, and a named one for an even number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardsweep {

/// Middle value that counts of an even number of values.
enum class Even : std::uint8_t { lower, mean, upper };

/// 0 of no values.
[[nodiscard]] inline double median_of(std::vector<double> values, Even even) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double lower = values[(values.size() - 1) / 2];
  const double upper = values[values.size() / 2];
  return even == Even::lower ? lower : even == Even::upper ? upper : (lower + upper) / 2;
}

}  // namespace shardsweep
