// SPDX-License-Identifier: Apache-2.0
// The memory that attention on a GPU needs beside its operands; no CUDA in it, so that the meta
// device tells the same.
#pragma once

#include "device.hpp"

namespace shardbench {

/// Head dimensions for which there are tensor-core kernels; plain ones do all others.
constexpr bool has_tiled_attention(i64 head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

/// Rows of the query tiles of backward.
constexpr i64 backward_query_tile = 64;

/// What backward keeps in its workspace, in floats: for each sequence, head and tile of queries
/// - statistics[2, tile]: log2-sum-exp2 and Σ dout·out of each query,
/// - dq[tile·head_dim]: the gradient to q, summed over the blocks of keys, as fragments.
struct AttentionWorkspace {
  i64 tiles;  // of one head
  i64 statistics;
  i64 dq;
};

constexpr AttentionWorkspace attention_workspace(const AttentionShape& s) {
  if (!has_tiled_attention(s.head_dim)) return {0, 0, 0};
  const i64 tiles = (s.seq_len + backward_query_tile - 1) / backward_query_tile;
  const i64 queries = s.batch * s.heads * tiles * backward_query_tile;
  return {tiles, 2 * queries, queries * s.head_dim};
}

constexpr i64 gpu_attention_workspace_bytes(const AttentionShape& s) {
  const AttentionWorkspace w = attention_workspace(s);
  return (w.statistics + w.dq) * 4;
}

}  // namespace shardbench
