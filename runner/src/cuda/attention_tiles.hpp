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
__device__ inline void load_tile(Bf16* tile, const Bf16* from, i64 stride, int valid) {
  constexpr int chunks = dim / chunk_values;
  SHARDBENCH_UNROLL
  for (int first = 0; first < rows * chunks; first += threads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (rows * chunks % threads != 0 && i >= rows * chunks) break;
    const int row = i / chunks;
    const int chunk = i % chunks;
    const bool inside = row < valid;
    const int column = chunk * chunk_values;
    copy_async(tile + tile_offset<dim>(row, chunk), from + (inside ? row : 0) * stride + column,
               inside);
  }
}

using Fragment = std::uint32_t[4];

// Rows and chunks in which the four 8×8 matrices of a load begin: for A from a tile [m, k] and
// for B from a tile [k, n] the second lies below the first, the third beside it; for B from
// [n, k] and A from [k, m] it is the other way round.
template <int dim>
__device__ inline const Bf16* below_first(const Bf16* tile, int row, int chunk) {
  const int lane = lane_index();
  return tile + tile_offset<dim>(row + lane % 16, chunk + lane / 16);
}
template <int dim>
__device__ inline const Bf16* beside_first(const Bf16* tile, int row, int chunk) {
  const int lane = lane_index();
  return tile + tile_offset<dim>(row + lane % 8 + lane / 16 * 8, chunk + lane / 8 % 2);
}

/// A[16, 16] from a tile [m, k].
template <int dim>
__device__ inline void load_a(Fragment& a, const Bf16* tile, int m, int k_chunk) {
  load_matrices(a, below_first<dim>(tile, m, k_chunk));
}
/// A[16, 16] from a tile [k, m].
template <int dim>
__device__ inline void load_a_transposed(Fragment& a, const Bf16* tile, int k, int m_chunk) {
  load_matrices_transposed(a, beside_first<dim>(tile, k, m_chunk));
}
/// B[16, 8] twice, for columns n and n + 8, from a tile [n, k]: the first in b[0] and b[1].
template <int dim>
__device__ inline void load_b(Fragment& b, const Bf16* tile, int n, int k_chunk) {
  load_matrices(b, beside_first<dim>(tile, n, k_chunk));
}
/// The same from a tile [k, n].
template <int dim>
__device__ inline void load_b_transposed(Fragment& b, const Bf16* tile, int k, int n_chunk) {
  load_matrices_transposed(b, below_first<dim>(tile, k, n_chunk));
}

/// Sums C of two neighbouring 16×8 tiles, as the A of a product over their 16 columns.
__device__ inline void sums_to_a(Fragment& a, const float (&left)[4], const float (&right)[4]) {
  a[0] = pack_bf16(left[0], left[1]);
  a[1] = pack_bf16(left[2], left[3]);
  a[2] = pack_bf16(right[0], right[1]);
  a[3] = pack_bf16(right[2], right[3]);
}

}  // namespace shardbench
