// SPDX-License-Identifier: Apache-2.0
// Causal attention, one warp per row and head, key after key (query after query): for head
// dimensions that the tensor-core kernels have no tiles for, and to check those by.
#include "cuda/attention_spread.hpp"

namespace shardbench::kernels {
namespace {

__global__ void forward_kernel(Bf16* out, float* lse, const Bf16* qkv, Geometry g) {
  const int query = row_of_warp();
  if (query >= g.seq_len) return;
  const int head = static_cast<int>(blockIdx.y);
  const i64 k_at = static_cast<i64>(g.heads + head / g.group()) * g.head_dim;
  const i64 v_at = k_at + static_cast<i64>(g.kv_heads) * g.head_dim;
  const i64 token = token_of(query, g);
  const Spread q = load_spread(qkv + token * g.row() + head * g.head_dim, g.head_dim);
  const Bf16* keys = qkv + token_of(0, g) * g.row();
  Spread sum_v;
  float maximum = -INFINITY;
  float sum = 0;
  for (int key = 0; key <= query; ++key) {
    const Bf16* row = keys + key * g.row();
    const float score = g.scale * dot(q, load_spread(row + k_at, g.head_dim));
    const float higher = score > maximum ? score : maximum;
    const float shrink = expf(maximum - higher);
    const float p = expf(score - higher);
    maximum = higher;
    sum = sum * shrink + p;
#pragma unroll
    for (float& value : sum_v.at)
      value *= shrink;
    sum_v.add(p, load_spread(row + v_at, g.head_dim));
  }
  store_spread(out + token * g.out_row() + head * g.head_dim, sum_v, 1 / sum, g.head_dim);
  if (lane_index() == 0) lse[token * g.heads + head] = maximum + logf(sum);
}

/// dq = scale · Σ over keys of ds·k, with ds = p·dout·(v − out).
__global__ void backward_query_kernel(AttentionGradient a, Geometry g) {
  const int query = row_of_warp();
  if (query >= g.seq_len) return;
  const int head = static_cast<int>(blockIdx.y);
  const i64 k_at = static_cast<i64>(g.heads + head / g.group()) * g.head_dim;
  const i64 v_at = k_at + static_cast<i64>(g.kv_heads) * g.head_dim;
  const i64 token = token_of(query, g);
  const i64 out_at = token * g.out_row() + head * g.head_dim;
  const Spread q = load_spread(a.qkv + token * g.row() + head * g.head_dim, g.head_dim);
  const Spread out = load_spread(a.out + out_at, g.head_dim);
  const Spread dout = load_spread(a.dout + out_at, g.head_dim);
  const Bf16* keys = a.qkv + token_of(0, g) * g.row();
  Spread dq;
  for (int key = 0; key <= query; ++key) {
    const Spread k = load_spread(keys + key * g.row() + k_at, g.head_dim);
    Spread v = load_spread(keys + key * g.row() + v_at, g.head_dim);
    const float p = expf(g.scale * dot(q, k) - a.lse[token * g.heads + head]);
    v.add(-1, out);
    dq.add(p * dot(dout, v), k);
  }
  store_spread(a.dqkv + token * g.row() + head * g.head_dim, dq, g.scale, g.head_dim);
}

/// dv = Σ p·dout and dk = scale · Σ ds·q, over the queries of all heads that share the key;
/// blockIdx.y is the head of keys and values.
__global__ void backward_key_kernel(AttentionGradient a, Geometry g) {
  const int key = row_of_warp();
  if (key >= g.seq_len) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const i64 k_at = token_of(key, g) * g.row() + (g.heads + kv_head) * g.head_dim;
  const i64 v_at = k_at + static_cast<i64>(g.kv_heads) * g.head_dim;
  const Spread k = load_spread(a.qkv + k_at, g.head_dim);
  const Spread v = load_spread(a.qkv + v_at, g.head_dim);
  Spread dk;
  Spread dv;
  for (int head = kv_head * g.group(); head < (kv_head + 1) * g.group(); ++head) {
    for (int query = key; query < g.seq_len; ++query) {
      const i64 token = token_of(query, g);
      const i64 out_at = token * g.out_row() + head * g.head_dim;
      const Spread q = load_spread(a.qkv + token * g.row() + head * g.head_dim, g.head_dim);
      const Spread dout = load_spread(a.dout + out_at, g.head_dim);
      Spread difference = v;
      difference.add(-1, load_spread(a.out + out_at, g.head_dim));
      const float p = expf(g.scale * dot(q, k) - a.lse[token * g.heads + head]);
      dv.add(p, dout);
      dk.add(p * dot(dout, difference), q);
    }
  }
  store_spread(a.dqkv + k_at, dk, g.scale, g.head_dim);
  store_spread(a.dqkv + v_at, dv, 1, g.head_dim);
}

Launch over_rows(const char* name, gpu::Stream stream, const AttentionShape& s, i64 heads) {
  return {
      name, stream, Dim(blocks_for(s.seq_len, warps_per_block), heads, s.batch), threads_per_block};
}

}  // namespace

void plain_attention(
    gpu::Stream stream, Bf16* out, float* lse, const Bf16* qkv, const AttentionShape& shape) {
  launch(forward_kernel, over_rows("plain_attention", stream, shape, shape.heads), out, lse, qkv,
      geometry_of(shape));
}

void plain_attention_backward(
    gpu::Stream stream, const AttentionGradient& g, const AttentionShape& shape) {
  launch(backward_query_kernel,
      over_rows("plain_attention_backward of q", stream, shape, shape.heads), g,
      geometry_of(shape));
  launch(backward_key_kernel,
      over_rows("plain_attention_backward of k, v", stream, shape, shape.kv_heads), g,
      geometry_of(shape));
}

}  // namespace shardbench::kernels
