// SPDX-License-Identifier: Apache-2.0
// bfloat16 on the host: the upper half of a float, rounded to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace shardbench {

struct Bf16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN keeps its sign and stays one; rounding up would make it an infinity.
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  const std::uint32_t rounding = 0x7fffU + (bits >> 16 & 1U);
  return {static_cast<std::uint16_t>((bits + rounding) >> 16)};
}

}  // namespace shardbench
