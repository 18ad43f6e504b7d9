// SPDX-License-Identifier: Apache-2.0
// Units of the formulas, all as doubles.
#pragma once

#include <cstdint>

namespace shardsweep {

inline constexpr double micro = 1e-6;
inline constexpr double kib = 1024;
inline constexpr double mib = 1024 * kib;
inline constexpr double gib = 1024 * mib;

[[nodiscard]] constexpr double real(std::int64_t value) {
  return static_cast<double>(value);
}

}  // namespace shardsweep
