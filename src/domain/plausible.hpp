// SPDX-License-Identifier: Apache-2.0
// Results that cannot be true: they are kept, marked, repeated and never ranked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

inline constexpr std::string_view mark_implausible = "implausible";

/// What a result has to agree with. Nothing is checked of what is not known.
struct Expected {
  std::optional<std::int64_t> n_params;
  std::optional<std::int64_t> tokens_per_step;
  /// Losses of other layouts after the same train step: same weights, same samples, so the same
  /// loss but for rounding.
  std::vector<double> losses{};
};

/// Why the metrics of a result (metric.hpp, by name) can't be true; empty where they can. A
/// model FLOPs utilisation above 1 is faster than the hardware; parameters and tokens of a
/// train step are exact; a loss is held against the median of at least two others that agree.
[[nodiscard]] std::string why_implausible(
    const std::map<std::string, double, std::less<>>& metrics, const Expected& expected);

}  // namespace shardsweep
