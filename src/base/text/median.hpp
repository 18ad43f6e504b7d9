// SPDX-License-Identifier: Apache-2.0
// Medians, with a named rule for an even number of values, and other quantiles.
#pragma once

#include <algorithm>
#include <cstddef>
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

/// Value below which a `share` of the values lies, linear between neighbours. There is a value.
[[nodiscard]] inline double quantile_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const auto high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace shardsweep
