// SPDX-License-Identifier: Apache-2.0
// What kernels are written in: CUDA C++ under nvcc, the same words on the host otherwise.
//
// g++ compiles the same .cu files against tests/emulated/kernel_emulator.hpp, which runs the
// threads of a block as fibers; so kernels keep to this:
// - threads of a block are counted by threadIdx.x alone, in whole warps;
// - sync_block, sync_warp, shuffles and votes are reached by all threads of the block (warp) at
//   one place in the source, none having returned before;
// - shared arrays are SHARDBENCH_SHARED(type, name, count) of plain types (float,
//   std::uint32_t): one with a constructor, such as Bf16, is refused by nvcc. Dynamic shared
//   memory comes from dynamic_shared<T>().
#pragma once

#include "base/error.hpp"
#include "cuda/gpu.hpp"
#include "device/bf16.hpp"
#include "device/dtype.hpp"
#include "device/fp8.hpp"

#include <cmath>
#include <cstdint>
#include <string>

namespace shardbench {

/// Blocks of a grid.
struct Dim {
  // NOLINTNEXTLINE(google-explicit-constructor): a count is a shape
  constexpr Dim(i64 x_count, i64 y_count = 1, i64 z_count = 1)
      : x(static_cast<unsigned>(x_count)),
        y(static_cast<unsigned>(y_count)),
        z(static_cast<unsigned>(z_count)) {}
  unsigned x;
  unsigned y;
  unsigned z;
};

/// How a kernel is started; the name is told when that fails.
struct Launch {
  const char* name;
  gpu::Stream stream;
  Dim blocks;
  int threads;
  i64 shared_bytes = 0;
};

constexpr int warp_size = 32;

/// Blocks of `per_block` that hold `count`.
constexpr i64 blocks_for(i64 count, i64 per_block) {
  return (count + per_block - 1) / per_block;
}

/// Adjacent values that one 16-byte access moves, as floats.
template <int count>
struct Floats {
  float at[count];
};
/// Adjacent numbers of 8 bits that one access moves.
struct Bytes8 {
  std::uint8_t at[8];
};
template <typename T>
constexpr int vector_width = static_cast<int>(16 / sizeof(T));

}  // namespace shardbench

#if defined(__CUDACC__)
#include "cuda/kernel_language_nvcc.hpp"
#else
#include "kernel_emulator.hpp"
#endif

namespace shardbench {

__device__ inline int lane_index() {
  return static_cast<int>(threadIdx.x) % warp_size;
}
__device__ inline int warp_index() {
  return static_cast<int>(threadIdx.x) / warp_size;
}
/// This thread's number in a grid of one dimension, and how many there are: for loops over
/// arrays of any length.
__device__ inline i64 global_thread() {
  return static_cast<i64>(blockIdx.x) * static_cast<i64>(blockDim.x) + threadIdx.x;
}
__device__ inline i64 global_threads() {
  return static_cast<i64>(gridDim.x) * static_cast<i64>(blockDim.x);
}

/// Sum over the warp, in every lane.
template <typename T>
__device__ inline T warp_sum(T value) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    value += shuffle_xor(value, distance);
  return value;
}

template <typename T>
__device__ inline T warp_max(T value) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const T other = shuffle_xor(value, distance);
    value = other > value ? other : value;
  }
  return value;
}

struct SumOf {
  template <typename T>
  __device__ static T of_warp(T value) {
    return warp_sum(value);
  }
  template <typename T>
  __device__ static T neutral(T /*value*/) {
    return T(0);
  }
};
struct MaxOf {
  template <typename T>
  __device__ static T of_warp(T value) {
    return warp_max(value);
  }
  /// Any value of the set will do.
  template <typename T>
  __device__ static T neutral(T value) {
    return value;
  }
};

template <typename Operation, typename T>
__device__ inline T block_reduce(T value) {
  SHARDBENCH_SHARED(T, of_warps, warp_size);
  value = Operation::of_warp(value);
  if (lane_index() == 0) of_warps[warp_index()] = value;
  sync_block();
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  T part = lane_index() < warps ? of_warps[lane_index()] : Operation::neutral(of_warps[0]);
  part = Operation::of_warp(part);
  sync_block();  // the array is free for the next one
  return part;
}

/// Sum over the block, in every thread; up to 1024 threads.
template <typename T>
__device__ inline T block_sum(T value) {
  return block_reduce<SumOf>(value);
}
template <typename T>
__device__ inline T block_max(T value) {
  return block_reduce<MaxOf>(value);
}

}  // namespace shardbench
