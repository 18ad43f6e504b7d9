// SPDX-License-Identifier: Apache-2.0
// Sums of arrays.
#include "cuda/kernel_language.hpp"
#include "cuda/kernels.hpp"

namespace shardbench::kernels {
namespace {

constexpr int threads_per_block = 256;

__global__ void add_kernel(Bf16* y, const Bf16* a, const Bf16* b, i64 count) {
  constexpr int width = vector_width<Bf16>;
  const i64 vectors = count / width;
  for (i64 i = global_thread(); i < vectors; i += global_threads()) {
    Floats<width> sum = load_vector(a + i * width);
    const Floats<width> other = load_vector(b + i * width);
    for (int j = 0; j < width; ++j)
      sum.at[j] += other.at[j];
    store_vector(y + i * width, sum);
  }
  const i64 rest = vectors * width + global_thread();
  if (rest < count) y[rest] = narrow(widen(a[rest]) + widen(b[rest]));
}

__global__ void accumulate_kernel(float* y, const float* x, i64 count) {
  constexpr int width = vector_width<float>;
  const i64 vectors = count / width;
  for (i64 i = global_thread(); i < vectors; i += global_threads()) {
    Floats<width> sum = load_vector(y + i * width);
    const Floats<width> other = load_vector(x + i * width);
    for (int j = 0; j < width; ++j)
      sum.at[j] += other.at[j];
    store_vector(y + i * width, sum);
  }
  const i64 rest = vectors * width + global_thread();
  if (rest < count) y[rest] += x[rest];
}

/// Enough blocks for one vector per thread.
Launch over(const char* name, gpu::Stream stream, i64 count, int width) {
  const i64 vectors = blocks_for(count, width);
  return {name, stream, blocks_for(vectors, threads_per_block), threads_per_block};
}

}  // namespace

void add(gpu::Stream stream, Bf16* y, const Bf16* a, const Bf16* b, i64 count) {
  if (count == 0) return;
  launch(add_kernel, over("add", stream, count, vector_width<Bf16>), y, a, b, count);
}

void accumulate(gpu::Stream stream, float* y, const float* x, i64 count) {
  if (count == 0) return;
  launch(accumulate_kernel, over("accumulate", stream, count, vector_width<float>), y, x,
         count);
}

}  // namespace shardbench::kernels
