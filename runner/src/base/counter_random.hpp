// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: a value depends on its key alone, so that weights and samples
// are the same in every layout, with no communication.
#pragma once

#include "device/dtype.hpp"

namespace shardbench {

/// A bijective mix of 64 bits (the finaliser of splitmix64, public domain constants).
constexpr u64 mix(u64 x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr u64 mix(u64 a, u64 b) {
  return mix(mix(a) ^ b);
}

/// Nearly normal, mean 0, variance 1: the sum of four uniform 16-bit values.
constexpr double normal_from(u64 bits) {
  double sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<double>((bits >> (16 * i)) & 0xffff) * (1.0 / 65535.0) - 0.5;
  return sum * 1.7320508075688772;  // the sum has variance 4/12
}

}  // namespace shardbench
