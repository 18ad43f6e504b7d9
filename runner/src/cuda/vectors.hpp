// SPDX-License-Identifier: Apache-2.0
// Loops over arrays in vectors of adjacent values, or one by one where 16 bytes at a time can't
// be had: for kernels that are bound by memory.
#pragma once

#include "cuda/kernel_language.hpp"

#include <algorithm>

namespace shardbench {

/// Number of adjacent values of an access, as a parameter. 1; 4 of fp32 or 8 of bf16 are 16 bytes.
template <int width>
struct Width {};

template <int width>
__device__ inline Floats<width> load(const Bf16* from) {
  if constexpr (width == 8)
    return load_vector(from);
  else
    return {{widen(*from)}};
}

template <int width>
__device__ inline Floats<width> load(const float* from) {
  if constexpr (width == 4)
    return load_vector(from);
  else
    return {{*from}};
}

template <int width>
__device__ inline void store(Bf16* to, const Floats<width>& values) {
  if constexpr (width == 8)
    store_vector(to, values);
  else
    *to = narrow(values.at[0]);
}

template <int width>
__device__ inline void store(float* to, const Floats<width>& values) {
  if constexpr (width == 4)
    store_vector(to, values);
  else
    *to = values.at[0];
}

/// Thread of the `count` threads that share a loop.
struct Worker {
  i64 index;
  i64 count;
};

__device__ inline Worker worker_of_block() {
  return {threadIdx.x, blockDim.x};
}

/// Elements from `start` to the first one that begins 16 aligned bytes.
template <typename T>
__device__ inline i64 to_alignment(const T* start, i64 count) {
  const auto past = reinterpret_cast<std::uintptr_t>(start) % 16;
  const i64 elements = static_cast<i64>((16 - past) % 16 / sizeof(T));
  return elements < count ? elements : count;
}

/// Calls f(i, Width<n>) once for every n elements i, i + 1, … of [0, count): single elements up
/// to `first`, then whole vectors of `width`, then what is left.
template <int width, typename F>
__device__ inline void visit(i64 first, i64 count, Worker worker, F f) {
  const i64 vectors = (count - first) / width;
  for (i64 i = worker.index; i < first; i += worker.count)
    f(i, Width<1>{});
#pragma unroll 1
  for (i64 i = worker.index; i < vectors; i += worker.count)
    f(first + i * width, Width<width>{});
  for (i64 i = first + vectors * width + worker.index; i < count; i += worker.count)
    f(i, Width<1>{});
}

/// Visits an array that is only read, with `batch` loads of each thread under way at once: f(i,
/// values, counts). Values that do not count have been read to fill a batch.
template <int width, int batch, typename T, typename F>
__device__ inline void read(const T* array, i64 count, Worker worker, F f) {
  const i64 first = to_alignment(array, count);
  const i64 vectors = (count - first) / width;
  for (i64 i = worker.index; i < first; i += worker.count)
    f(i, load<1>(array + i), true);
  // No branch between the loads, or each would wait for the one before.
  for (i64 i = worker.index; i < vectors; i += batch * worker.count) {
    Floats<width> values[batch];
    for (int b = 0; b < batch; ++b) {
      const i64 vector = i + b * worker.count;
      values[b] = load<width>(array + first + (vector < vectors ? vector : i) * width);
    }
    for (int b = 0; b < batch; ++b) {
      const i64 vector = i + b * worker.count;
      f(first + vector * width, values[b], vector < vectors);
    }
  }
  for (i64 i = first + vectors * width + worker.index; i < count; i += worker.count)
    f(i, load<1>(array + i), true);
}

template <int width, typename F>
__global__ void for_each_kernel(i64 count, F f) {
  visit<width>(0, count, Worker{global_thread(), global_threads()}, f);
}

/// True if arrays that start there can be read by vectors.
template <typename... T>
bool aligned(const T*... starts) {
  return ((reinterpret_cast<std::uintptr_t>(starts) % 16 == 0) && ...);
}

/// Threads of a block that share `items`.
inline int block_threads(i64 items, i64 most) {
  const i64 whole_warps = blocks_for(items, warp_size) * warp_size;
  return static_cast<int>(std::clamp<i64>(whole_warps, warp_size, most));
}

/// f over [0, count), by vectors of `width` if `vectors` is true. One vector for each
/// thread: so many loads are under way at once that their latency does not show.
template <int width, typename F>
void for_each(const char* name, gpu::Stream stream, i64 count, bool vectors, F f) {
  constexpr int threads = 256;
  constexpr i64 most_blocks = i64{1} << 22;
  if (count == 0) return;
  const i64 items = vectors ? blocks_for(count, width) : count;
  const Launch shape{name, stream, std::min(blocks_for(items, threads), most_blocks), threads};
  if (vectors)
    launch(for_each_kernel<width, F>, shape, count, f);
  else
    launch(for_each_kernel<1, F>, shape, count, f);
}

}  // namespace shardbench
