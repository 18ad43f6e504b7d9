// SPDX-License-Identifier: Apache-2.0
// Tensors in 8 bits for matrix products, with the scales that go with them.
#include "cuda/eight_bits.hpp"
#include "cuda/kernels.hpp"
#include "cuda/swiglu.hpp"

namespace shardbench::kernels {
namespace {

constexpr int threads = 256;
constexpr int width = 8;               // values of bf16 that one access moves
constexpr int tile = 64;               // rows, and columns, of what a block turns at once
constexpr int tile_stride = tile + 4;  // bytes: rows begin in different banks
constexpr i64 most_blocks = 2048;

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

constexpr int vectors_of_tile = tile / width;

/// Place of a thread's next vector of a tile; tells if the matrix has it.
struct TilePlace {
  __device__ TilePlace(int i, i64 rows, i64 columns)
      : row(i / vectors_of_tile),
        column(i % vectors_of_tile * width),
        global_row(static_cast<i64>(blockIdx.y) * tile + row),
        global_column(static_cast<i64>(blockIdx.x) * tile + column),
        inside(global_row < rows && global_column < columns) {}
  int row;
  int column;
  i64 global_row;
  i64 global_column;
  bool inside;
};

/// Eight values into 8 bits: into the tile, and to their place along the rows.
__device__ std::uint32_t put(std::uint8_t* turned, const TilePlace& at, const Floats<width>& values,
    float scale, bool e4m3, std::uint8_t* straight) {
  Bytes8 bytes;
  std::uint32_t most = 0;
  for (int e = 0; e < width; ++e) {
    most = larger(most, magnitude_bits(values.at[e]));
    bytes.at[e] = narrow_to_8_bits(values.at[e] * scale, e4m3);
    turned[at.row * tile_stride + at.column + e] = bytes.at[e];
  }
  if (straight != nullptr) store_bytes(straight, bytes);
  return most;
}

/// Writes the tile along its columns; `transposed`: beginning of the tile's matrix.
__device__ void put_turned(
    const std::uint8_t* turned, i64 rows, i64 columns, std::uint8_t* transposed) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * vectors_of_tile; i += threads) {
    const int column = i / vectors_of_tile;
    const int row = i % vectors_of_tile * width;
    const i64 global_row = static_cast<i64>(blockIdx.y) * tile + row;
    const i64 global_column = static_cast<i64>(blockIdx.x) * tile + column;
    if (global_row >= rows || global_column >= columns) continue;
    Bytes8 bytes;
    for (int e = 0; e < width; ++e)
      bytes.at[e] = turned[(row + e) * tile_stride + column];
    store_bytes(transposed + global_column * rows + global_row, bytes);
  }
}

__device__ bool first_thread_of_grid() {
  return blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0;
}

/// Block per tile: along the rows into shared memory, along the columns out of it.
__global__ void quantize_kernel(Tiles t) {
  SHARDBENCH_SHARED(std::uint8_t, turned, tile * tile_stride);
  const float scale = scale_of(*t.limit, t.e4m3);
  if (first_thread_of_grid()) *t.unit = 1.0F / scale;
  std::uint32_t most = 0;
  for (int i = static_cast<int>(threadIdx.x); i < tile * vectors_of_tile; i += threads) {
    const TilePlace at(i, t.rows, t.columns);
    if (!at.inside) continue;
    const i64 value = at.global_row * t.columns + at.global_column;
    most = larger(most,
        put(turned, at, load<width>(t.values + value), scale, t.e4m3,
            t.straight == nullptr ? nullptr : t.straight + value));
  }
  sync_block();
  if (t.transposed != nullptr) put_turned(turned, t.rows, t.columns, t.transposed);
  if (t.seen != nullptr) raise(t.seen, most);
}

/// Block per tile, likewise.
__global__ void transpose_8_bits_kernel(
    std::uint8_t* to, const std::uint8_t* from, i64 rows, i64 columns) {
  SHARDBENCH_SHARED(std::uint8_t, turned, tile * tile_stride);
  for (int i = static_cast<int>(threadIdx.x); i < tile * vectors_of_tile; i += threads) {
    const TilePlace at(i, rows, columns);
    if (!at.inside) continue;
    const Bytes8 bytes = load_bytes(from + at.global_row * columns + at.global_column);
    for (int e = 0; e < width; ++e)
      turned[at.row * tile_stride + at.column + e] = bytes.at[e];
  }
  sync_block();
  put_turned(turned, rows, columns, to);
}

/// SwiGLU's gradient, straight into 8 bits in both orders. Of rows [gates | up values] a tile
/// of gates and the tile of up values beside it; `t.columns` is the width of one of them.
__global__ void swiglu_gradient_kernel(Tiles t, const Bf16* dy) {
  SHARDBENCH_SHARED(std::uint8_t, gates, tile * tile_stride);
  SHARDBENCH_SHARED(std::uint8_t, ups, tile * tile_stride);
  const float scale = scale_of(*t.limit, t.e4m3);
  if (first_thread_of_grid()) *t.unit = 1.0F / scale;
  std::uint32_t most = 0;
  for (int i = static_cast<int>(threadIdx.x); i < tile * vectors_of_tile; i += threads) {
    const TilePlace at(i, t.rows, t.columns);
    if (!at.inside) continue;
    const i64 value = at.global_row * 2 * t.columns + at.global_column;
    Floats<width> gate = load<width>(t.values + value);
    Floats<width> up = load<width>(t.values + value + t.columns);
    const Floats<width> d = load<width>(dy + at.global_row * t.columns + at.global_column);
    for (int e = 0; e < width; ++e) {
      const GateUp gradient = swiglu_gradient(gate.at[e], up.at[e], d.at[e]);
      gate.at[e] = widen(narrow(gradient.gate));
      up.at[e] = widen(narrow(gradient.up));
    }
    most = larger(most, put(gates, at, gate, scale, t.e4m3, t.straight + value));
    most = larger(most, put(ups, at, up, scale, t.e4m3, t.straight + value + t.columns));
  }
  sync_block();
  put_turned(gates, t.rows, t.columns, t.transposed);
  put_turned(ups, t.rows, t.columns, t.transposed + t.columns * t.rows);
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

Tiles tiles_of(const Device::Quantization& q, i64 columns) {
  return {static_cast<const Bf16*>(q.values), q.rows, columns, q.element == Element::e4m3,
      static_cast<std::uint8_t*>(q.straight), static_cast<std::uint8_t*>(q.transposed), q.limit,
      q.unit, q.seen};
}

enum class Turned { no, yes };
Launch over_tiles(const char* name, gpu::Stream stream, i64 rows, i64 columns, Turned turned) {
  check((turned == Turned::no || rows % width == 0) && columns % width == 0,
      "a tensor in FP8 has rows and columns in multiples of 8");
  return {name, stream, {blocks_for(columns, tile), blocks_for(rows, tile)}, threads};
}

}  // namespace

void raise_amax(gpu::Stream stream, float* amax, const Bf16* values, i64 count) {
  const i64 blocks = std::clamp<i64>(blocks_for(count, i64{threads} * width), 1, most_blocks);
  launch(raise_amax_kernel, {"raise_amax", stream, blocks, threads}, amax, values, count);
}

void quantize(gpu::Stream stream, const Device::Quantization& q) {
  launch(quantize_kernel,
      over_tiles("quantize", stream, q.rows, q.columns,
          q.transposed == nullptr ? Turned::no : Turned::yes),
      tiles_of(q, q.columns));
}

void transpose_8_bits(gpu::Stream stream, void* to, const void* from, i64 rows, i64 columns) {
  launch(transpose_8_bits_kernel,
      over_tiles("transpose_8_bits", stream, rows, columns, Turned::yes),
      static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), rows, columns);
}

void swiglu_backward_to_8_bits(gpu::Stream stream, const Bf16* dy, const Device::Quantization& q) {
  check(q.straight != nullptr && q.transposed != nullptr, "both orders are wanted");
  launch(swiglu_gradient_kernel,
      over_tiles("swiglu_backward", stream, q.rows, q.columns / 2, Turned::yes),
      tiles_of(q, q.columns / 2), dy);
}

void keep_amax(gpu::Stream stream, const Device::AmaxHistory& history) {
  launch(keep_amax_kernel, {"keep_amax", stream, blocks_for(history.tensors, threads), threads},
      history);
}

}  // namespace shardbench::kernels
