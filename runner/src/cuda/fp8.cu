// SPDX-License-Identifier: Apache-2.0
// Tensors in 8 bits for matrix products, with the scales that go with them. Magnitudes are kept
// as the bits of floats, which are in the order of their values; a NaN is above all.
#include "cuda/kernels.hpp"
#include "cuda/vectors.hpp"

namespace shardbench::kernels {
namespace {

constexpr int threads = 256;
constexpr int width = 8;               // values of bf16 that one access moves
constexpr int tile = 64;               // rows, and columns, of what a block turns at once
constexpr int tile_stride = tile + 4;  // bytes: rows begin in different banks
constexpr i64 most_blocks = 2048;

__device__ std::uint32_t magnitude_bits(float value) {
  return float_bits(value) & 0x7fffffffU;
}

__device__ std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return a > b ? a : b;
}

__device__ void raise(float* amax, std::uint32_t of_thread) {
  const std::uint32_t most = block_max(of_thread);
  if (threadIdx.x == 0) atomic_max(reinterpret_cast<std::uint32_t*>(amax), most);
}

__global__ void raise_amax_kernel(float* amax, const Bf16* values, i64 count) {
  std::uint32_t most = 0;
  read<width, 4>(values, count, Worker{global_thread(), global_threads()},
                 [&](i64, const auto& read_values, bool counts) {
                   if (!counts) return;
                   for (const float value : read_values.at)
                     most = larger(most, magnitude_bits(value));
                 });
  raise(amax, most);
}

/// As fp8_scale() on the host.
__device__ float scale_of(float limit, bool e4m3) {
  constexpr float most = 3.402823466e+38F;
  if (!(limit > 0.0F) || !(limit <= most)) return 1.0F;
  const float scale = (e4m3 ? 448.0F : 57344.0F) / limit;
  return scale < most ? scale : most;
}

struct Tiles {
  const Bf16* values;
  i64 rows;
  i64 columns;
  bool e4m3;
  std::uint8_t* straight;
  std::uint8_t* transposed;
  const float* limit;
  float* unit;
  float* seen;
};

/// Block per tile: along the rows into shared memory, along the columns out of it.
__global__ void quantize_kernel(Tiles t) {
  SHARDBENCH_SHARED(std::uint8_t, turned, tile * tile_stride);
  const i64 first_row = static_cast<i64>(blockIdx.y) * tile;
  const i64 first_column = static_cast<i64>(blockIdx.x) * tile;
  const float scale = scale_of(*t.limit, t.e4m3);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *t.unit = 1.0F / scale;
  constexpr int vectors = tile / width;
  std::uint32_t most = 0;
  for (int i = static_cast<int>(threadIdx.x); i < tile * vectors; i += threads) {
    const int row = i / vectors;
    const int column = i % vectors * width;
    const i64 at = (first_row + row) * t.columns + first_column + column;
    if (first_row + row >= t.rows || first_column + column >= t.columns) continue;
    const Floats<width> values = load<width>(t.values + at);
    Bytes8 bytes;
    for (int e = 0; e < width; ++e) {
      most = larger(most, magnitude_bits(values.at[e]));
      bytes.at[e] = narrow_to_8_bits(values.at[e] * scale, t.e4m3);
      turned[row * tile_stride + column + e] = bytes.at[e];
    }
    if (t.straight != nullptr) store_bytes(t.straight + at, bytes);
  }
  sync_block();
  if (t.transposed != nullptr)
    for (int i = static_cast<int>(threadIdx.x); i < tile * vectors; i += threads) {
      const int column = i / vectors;
      const int row = i % vectors * width;
      if (first_row + row >= t.rows || first_column + column >= t.columns) continue;
      Bytes8 bytes;
      for (int e = 0; e < width; ++e)
        bytes.at[e] = turned[(row + e) * tile_stride + column];
      store_bytes(t.transposed + (first_column + column) * t.rows + first_row + row, bytes);
    }
  if (t.seen != nullptr) raise(t.seen, most);
}

__global__ void keep_amax_kernel(Device::AmaxHistory h) {
  const i64 tensor = global_thread();
  if (tensor >= h.tensors) return;
  h.history[h.place * h.tensors + tensor] = h.seen[tensor];
  h.seen[tensor] = 0.0F;
  std::uint32_t most = 0;
  for (i64 step = 0; step < h.steps; ++step)
    most = larger(most, magnitude_bits(h.history[step * h.tensors + tensor]));
  h.limits[tensor] = float_of_bits(most);
}

}  // namespace

void raise_amax(gpu::Stream stream, float* amax, const Bf16* values, i64 count) {
  const i64 blocks = std::clamp<i64>(blocks_for(count, i64{threads} * width), 1, most_blocks);
  launch(raise_amax_kernel, {"raise_amax", stream, blocks, threads}, amax, values, count);
}

void quantize(gpu::Stream stream, const Device::Quantization& q) {
  check(q.rows % width == 0 && q.columns % width == 0,
        "a tensor in FP8 has rows and columns in multiples of 8");
  launch(quantize_kernel,
         {"quantize", stream, {blocks_for(q.columns, tile), blocks_for(q.rows, tile)}, threads},
         Tiles{static_cast<const Bf16*>(q.values), q.rows, q.columns,
               q.element == Element::e4m3, static_cast<std::uint8_t*>(q.straight),
               static_cast<std::uint8_t*>(q.transposed), q.limit, q.unit, q.seen});
}

void keep_amax(gpu::Stream stream, const Device::AmaxHistory& history) {
  launch(keep_amax_kernel, {"keep_amax", stream, blocks_for(history.tensors, threads), threads},
         history);
}

}  // namespace shardbench::kernels
