// SPDX-License-Identifier: Apache-2.0
// Tiles of rows in shared memory, and the fragments that tensor cores take from them.
//
// Eight rows that one matrix load reads must lie in different banks: the 16-byte chunks of a
// row are permuted by the row's number (an exclusive or), so that no padding is needed.
#pragma once

#include "cuda/mma.hpp"

namespace shardbench {

constexpr int chunk_values = 8;  // bf16 values in 16 bytes

/// Where chunk `chunk` of row `row` of a tile[rows, dim] lies, in values.
template <int dim>
__host__ __device__ constexpr int tile_offset(int row, int chunk) {
  constexpr int chunks = dim / chunk_values;
  constexpr int bank_chunks = 8;  // 32 banks of 4 bytes
  constexpr int rows_per_turn = chunks < bank_chunks ? bank_chunks / chunks : 1;
  constexpr int permuted = chunks < bank_chunks ? chunks : bank_chunks;
  return row * dim + (chunk ^ (row / rows_per_turn % permuted)) * chunk_values;
}

/// Starts to copy rows of `dim` values, `stride` apart, into a tile; rows from `valid` on
/// become zeros.
template <int dim, int rows, int threads>
__device__ inline void load_tile(Bf16* tile, const Bf16* from, int stride, int valid) {
  constexpr int chunks = dim / chunk_values;
  constexpr int rows_at_once = threads / chunks;
  static_assert(rows_at_once % 8 == 0 || rows_at_once >= rows, "the permutation repeats");
  const int thread = recomputed(static_cast<int>(threadIdx.x));
  const int chunk = thread % chunks;
  const int column = chunk * chunk_values;
  int row = thread / chunks;
  Bf16* to = tile + tile_offset<dim>(row, chunk);
  from += static_cast<i64>(row) * stride + column;
#pragma unroll
  for (int first = 0; first < rows; first += rows_at_once) {
    if (rows_at_once > rows && row >= rows) break;
    // Where nothing is read, any address will do.
    copy_async(to + i64{first} * dim, from, row < valid);
    row += rows_at_once;
    from += static_cast<i64>(rows_at_once) * stride;
  }
}

using Fragment = std::uint32_t[4];

// Place of a lane's row for the load of four 8×8 matrices at the start of a tile. For A from a tile
// [m, k] and B from a tile [k, n], the second matrix lies below the first and the third beside it.
// For B from [n, k] and A from [k, m] it is the other way round. From there on rows count in
// multiples of 16 and chunks in multiples of 2, so that both offsets are one exclusive or and one
// addition away.
template <int dim>
__device__ inline int below_first() {
  const int lane = lane_index();
  return recomputed(tile_offset<dim>(lane % 16, lane / 16));
}
template <int dim>
__device__ inline int beside_first() {
  const int lane = lane_index();
  return recomputed(tile_offset<dim>(lane % 8 + lane / 16 * 8, lane / 8 % 2));
}
template <int dim>
__host__ __device__ constexpr int moved(int lane_offset, int row, int chunk) {
  return (lane_offset ^ (chunk * chunk_values)) + row * dim;
}

/// A[16, 16] from a tile [m, k]; `below` is below_first().
template <int dim>
__device__ inline void load_a(Fragment& a, const Bf16* tile, int below, int m, int k_chunk) {
  load_matrices(a, tile + moved<dim>(below, m, k_chunk));
}
/// A[16, 16] from a tile [k, m]; `beside` is beside_first().
template <int dim>
__device__ inline void load_a_transposed(
    Fragment& a, const Bf16* tile, int beside, int k, int m_chunk) {
  load_matrices_transposed(a, tile + moved<dim>(beside, k, m_chunk));
}
/// B[16, 8] twice, for columns n and n + 8, from a tile [n, k]: the first in b[0] and b[1].
template <int dim>
__device__ inline void load_b(Fragment& b, const Bf16* tile, int beside, int n, int k_chunk) {
  load_matrices(b, tile + moved<dim>(beside, n, k_chunk));
}
/// Loads B from a tile [k, n].
template <int dim>
__device__ inline void load_b_transposed(
    Fragment& b, const Bf16* tile, int below, int k, int n_chunk) {
  load_matrices_transposed(b, tile + moved<dim>(below, k, n_chunk));
}

/// Sums C of two neighbouring 16×8 tiles, as the A of a product over their 16 columns.
__device__ inline void sums_to_a(Fragment& a, const float (&left)[4], const float (&right)[4]) {
  a[0] = pack_bf16(left[0], left[1]);
  a[1] = pack_bf16(left[2], left[3]);
  a[2] = pack_bf16(right[0], right[1]);
  a[3] = pack_bf16(right[2], right[3]);
}

}  // namespace shardbench
