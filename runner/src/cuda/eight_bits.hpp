// SPDX-License-Identifier: Apache-2.0
// Values that become 8 bits, or show how large they are, in the kernel that makes them.
// Magnitudes are kept as the bits of floats, which are in the order of their values; a NaN is
// above all.
#pragma once

#include "cuda/vectors.hpp"
#include "device/device.hpp"

namespace shardbench::kernels {

__device__ inline std::uint32_t magnitude_bits(float value) {
  return float_bits(value) & 0x7fffffffU;
}

__device__ inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return a > b ? a : b;
}

/// Raises `amax` to the block's largest value. Most blocks find that another one had a larger
/// value: they add nothing to the queue at this one address.
__device__ inline void raise(float* amax, std::uint32_t of_thread) {
  const std::uint32_t most = block_max(of_thread);
  if (threadIdx.x == 0 && most > float_bits(*amax))
    atomic_max(reinterpret_cast<std::uint32_t*>(amax), most);
}

/// Scale, computed like fp8_scale() on the host.
__device__ inline float scale_of(float limit, bool e4m3) {
  constexpr float most = 3.402823466e+38F;
  if (!(limit > 0.0F) || !(limit <= most)) return 1.0F;
  const float scale = (e4m3 ? 448.0F : 57344.0F) / limit;
  return scale < most ? scale : most;
}

/// Leaves nothing beside the values that a kernel stores.
struct LeavesNothing {
  template <int n>
  __device__ void take(i64 /*at*/, const Floats<n>& /*values*/) {}
  __device__ void end() {}
};

/// Leaves the values' largest magnitude, and the values in 8 bits if a limit scales them. It takes
/// them after bf16 has rounded them, which equals reading them again.
class Leaves8Bits {
 public:
  explicit Leaves8Bits(const Device::Quantization& q)
      : e4m3_(q.element == Element::e4m3),
        straight_(static_cast<std::uint8_t*>(q.straight)),
        limit_(q.limit),
        unit_(q.unit),
        seen_(q.seen) {}

  /// `at`: the first value's place in the matrix.
  template <int n>
  __device__ void take(i64 at, const Floats<n>& values) {
    const float scale = straight_ == nullptr ? 1.0F : scale_of(*limit_, e4m3_);
    Bytes8 bytes{};
    for (int e = 0; e < n; ++e) {
      const float value = widen(narrow(values.at[e]));
      most_ = larger(most_, magnitude_bits(value));
      bytes.at[e] = narrow_to_8_bits(value * scale, e4m3_);
    }
    if (straight_ == nullptr) return;
    if constexpr (n == 8)
      store_bytes(straight_ + at, bytes);
    else
      straight_[at] = bytes.at[0];
  }

  /// Reached by all threads of all blocks.
  __device__ void end() {
    if (straight_ != nullptr && global_thread() == 0) *unit_ = 1.0F / scale_of(*limit_, e4m3_);
    if (seen_ != nullptr) raise(seen_, most_);
  }

 private:
  bool e4m3_;
  std::uint8_t* straight_;
  const float* limit_;
  float* unit_;
  float* seen_;
  std::uint32_t most_ = 0;
};

}  // namespace shardbench::kernels
