// SPDX-License-Identifier: Apache-2.0
// What kernels of attention share that do one row per warp: vectors spread over its lanes.
#pragma once

#include "cuda/attention_kernels.hpp"
#include "cuda/kernel_language.hpp"

namespace shardbench::kernels {

inline constexpr int threads_per_block = 128;
inline constexpr int warps_per_block = threads_per_block / warp_size;
inline constexpr int lane_values = static_cast<int>(plain_head_dim) / warp_size;

struct Geometry {
  int seq_len;
  int heads;
  int kv_heads;
  int head_dim;
  float scale;

  __device__ i64 row() const { return static_cast<i64>(heads + 2 * kv_heads) * head_dim; }
  __device__ i64 out_row() const { return static_cast<i64>(heads) * head_dim; }
  __device__ int group() const { return heads / kv_heads; }
};

inline Geometry geometry_of(const AttentionShape& s) {
  return {static_cast<int>(s.seq_len), static_cast<int>(s.heads), static_cast<int>(s.kv_heads),
      static_cast<int>(s.head_dim), score_scale(s)};
}

/// One vector of head_dim values, spread over the lanes of a warp.
struct Spread {
  float at[lane_values] = {};

  __device__ void add(float factor, const Spread& other) {
#pragma unroll
    for (int i = 0; i < lane_values; ++i)
      at[i] += factor * other.at[i];
  }
};

__device__ inline Spread load_spread(const Bf16* from, int head_dim) {
  Spread result;
#pragma unroll
  for (int i = 0; i < lane_values; ++i) {
    const int dim = i * warp_size + lane_index();
    if (dim < head_dim) result.at[i] = widen(from[dim]);
  }
  return result;
}

__device__ inline void store_spread(Bf16* to, const Spread& values, float factor, int head_dim) {
#pragma unroll
  for (int i = 0; i < lane_values; ++i) {
    const int dim = i * warp_size + lane_index();
    if (dim < head_dim) to[dim] = narrow(values.at[i] * factor);
  }
}

__device__ inline float dot(const Spread& a, const Spread& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < lane_values; ++i)
    sum += a.at[i] * b.at[i];
  return warp_sum(sum);
}

/// The row of a sequence that this warp does; blockIdx.y is the head, blockIdx.z the sequence.
__device__ inline int row_of_warp() {
  return static_cast<int>(blockIdx.x) * warps_per_block + warp_index();
}
__device__ inline i64 token_of(int position, const Geometry& g) {
  return static_cast<i64>(blockIdx.z) * g.seq_len + position;
}

}  // namespace shardbench::kernels
