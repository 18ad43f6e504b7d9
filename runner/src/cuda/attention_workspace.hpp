// SPDX-License-Identifier: Apache-2.0
// The memory that attention on a GPU needs beside its operands; no CUDA in it, so that the meta
// device tells the same.
#pragma once

#include "device/device.hpp"

#include <algorithm>

namespace shardbench {

/// Head dimensions for which there are tensor-core kernels; plain ones do all others.
constexpr bool has_tiled_attention(i64 head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

/// Rows of the query tiles of backward.
constexpr i64 backward_query_tile = 64;

/// Workspace of backward, in floats, for each sequence, head and tile of queries:
/// - statistics[2, tile]: log2-sum-exp2 and Σ dout·out of each query,
/// - dq[tile·head_dim]: the gradient to q, summed over the blocks of keys, as fragments.
struct AttentionWorkspace {
  i64 tiles;  // tiles of one head
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

/// Sizes that cuDNN's fused engines have; the others are for the kernels of our own.
constexpr bool cudnn_has_head_dim(i64 head_dim) {
  return head_dim == 64 || head_dim == 128;
}

/// Alignment of an engine's part of the workspace.
constexpr i64 engine_alignment = 256;

/// Bytes of cuDNN's backward between its operations: D of each query and the gradient to q, in
/// fp32.
constexpr i64 cudnn_sums_bytes(const AttentionShape& s) {
  const i64 bytes = s.batch * s.heads * s.seq_len * (1 + s.head_dim) * i64{sizeof(float)};
  return (bytes + engine_alignment - 1) / engine_alignment * engine_alignment;
}

/// Largest workspace that an engine of cuDNN 9.19 asks for. Backward keeps gradients to keys and
/// values of each head in bf16, twice where heads share keys. The engines that cuDNN prefers on 9.0
/// and 10.0 need half of it, or nothing if no keys are shared.
constexpr i64 cudnn_engine_bound(const AttentionShape& s) {
  const i64 of_heads = s.batch * s.heads * s.seq_len * s.head_dim * 2;
  return engine_alignment + 2 * of_heads * (s.heads == s.kv_heads ? 1 : 2);
}

/// Workspace for planning without a GPU whose library tells it: enough for any way of computing
/// attention.
constexpr i64 planned_attention_workspace_bytes(const AttentionShape& s) {
  const i64 own = gpu_attention_workspace_bytes(s);
  if (s.more_keys || !cudnn_has_head_dim(s.head_dim)) return own;
  return std::max(own, cudnn_sums_bytes(s) + cudnn_engine_bound(s));
}

}  // namespace shardbench
