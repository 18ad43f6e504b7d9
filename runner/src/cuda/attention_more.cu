// SPDX-License-Identifier: Apache-2.0
// Attention over keys of another rank, all of which the named queries see, added to what there
// is of their own: one warp per row and head, key after key (query after query). For head
// dimensions that the tensor-core kernels have no tiles for, and to check those by.
#include "cuda/attention_spread.hpp"

namespace shardbench::kernels {
namespace {

/// Rows of [k | v] of another rank; seen from `first` on by `queries` of each sequence.
struct QueryRange {
  int first;
  int queries;
  int keys;
};

QueryRange seen_of(const SeenKeys& seen) {
  return {static_cast<int>(seen.first_query), static_cast<int>(seen.queries),
      static_cast<int>(seen.keys)};
}

__device__ inline i64 key_row(const Geometry& g) {
  return static_cast<i64>(2) * g.kv_heads * g.head_dim;
}

/// Offset of a key in the rows of [k | v]; its value lies kv_heads·head_dim further.
__device__ inline i64 key_at(int key, int kv_head, const Geometry& g) {
  return token_of(key, g) * key_row(g) + static_cast<i64>(kv_head) * g.head_dim;
}

/// Treats the earlier result as one key with the score lse and the value out.
__global__ void attend_more_kernel(MoreKeys m, Geometry g, QueryRange seen) {
  const int row = row_of_warp();
  if (row >= seen.queries) return;
  const int head = static_cast<int>(blockIdx.y);
  const i64 token = token_of(seen.first + row, g);
  const i64 v_of = static_cast<i64>(g.kv_heads) * g.head_dim;
  const Spread q = load_spread(m.qkv + token * g.row() + head * g.head_dim, g.head_dim);
  Bf16* out = m.out + token * g.out_row() + head * g.head_dim;
  float* lse = m.lse + token * g.heads + head;
  Spread sum_v = load_spread(out, g.head_dim);
  float maximum = *lse;
  float sum = 1;
  for (int key = 0; key < seen.keys; ++key) {
    const Bf16* k = m.keys + key_at(key, head / g.group(), g);
    const float score = g.scale * dot(q, load_spread(k, g.head_dim));
    const float higher = score > maximum ? score : maximum;
    const float shrink = expf(maximum - higher);
    const float p = expf(score - higher);
    maximum = higher;
    sum = sum * shrink + p;
#pragma unroll
    for (float& value : sum_v.at)
      value *= shrink;
    sum_v.add(p, load_spread(k + v_of, g.head_dim));
  }
  store_spread(out, sum_v, 1 / sum, g.head_dim);
  sync_warp();  // all lanes have read it
  if (lane_index() == 0) *lse = maximum + logf(sum);
}

/// dq += scale · Σ over keys of ds·k, with ds = p·dout·(v − out).
__global__ void more_query_kernel(MoreKeysGradient m, Geometry g, QueryRange seen) {
  const int row = row_of_warp();
  if (row >= seen.queries) return;
  const int head = static_cast<int>(blockIdx.y);
  const i64 token = token_of(seen.first + row, g);
  const i64 out_at = token * g.out_row() + head * g.head_dim;
  const i64 v_of = static_cast<i64>(g.kv_heads) * g.head_dim;
  const Spread q = load_spread(m.qkv + token * g.row() + head * g.head_dim, g.head_dim);
  const Spread out = load_spread(m.out + out_at, g.head_dim);
  const Spread dout = load_spread(m.dout + out_at, g.head_dim);
  const float lse = m.lse[token * g.heads + head];
  Spread dq;
  for (int key = 0; key < seen.keys; ++key) {
    const Bf16* at = m.keys + key_at(key, head / g.group(), g);
    const Spread k = load_spread(at, g.head_dim);
    Spread v = load_spread(at + v_of, g.head_dim);
    const float p = expf(g.scale * dot(q, k) - lse);
    v.add(-1, out);
    dq.add(p * dot(dout, v), k);
  }
  Bf16* into = m.dqkv + token * g.row() + head * g.head_dim;
  Spread all = load_spread(into, g.head_dim);
  all.add(g.scale, dq);
  store_spread(into, all, 1, g.head_dim);
}

/// dv += Σ p·dout and dk += scale · Σ ds·q, over the queries of all heads that share the key;
/// blockIdx.y is the head of keys and values.
__global__ void more_key_kernel(MoreKeysGradient m, Geometry g, QueryRange seen) {
  const int key = row_of_warp();
  if (key >= seen.keys) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const i64 k_at = key_at(key, kv_head, g);
  const i64 v_at = k_at + static_cast<i64>(g.kv_heads) * g.head_dim;
  const Spread k = load_spread(m.keys + k_at, g.head_dim);
  const Spread v = load_spread(m.keys + v_at, g.head_dim);
  Spread dk;
  Spread dv;
  for (int head = kv_head * g.group(); head < (kv_head + 1) * g.group(); ++head) {
    for (int row = 0; row < seen.queries; ++row) {
      const i64 token = token_of(seen.first + row, g);
      const i64 out_at = token * g.out_row() + head * g.head_dim;
      const Spread q = load_spread(m.qkv + token * g.row() + head * g.head_dim, g.head_dim);
      const Spread dout = load_spread(m.dout + out_at, g.head_dim);
      Spread difference = v;
      difference.add(-1, load_spread(m.out + out_at, g.head_dim));
      const float p = expf(g.scale * dot(q, k) - m.lse[token * g.heads + head]);
      dv.add(p, dout);
      dk.add(p * dot(dout, difference), q);
    }
  }
  Spread all_k = load_spread(m.dkeys + k_at, g.head_dim);
  Spread all_v = load_spread(m.dkeys + v_at, g.head_dim);
  all_k.add(g.scale, dk);
  all_v.add(1, dv);
  store_spread(m.dkeys + k_at, all_k, 1, g.head_dim);
  store_spread(m.dkeys + v_at, all_v, 1, g.head_dim);
}

Launch over(const char* name, gpu::Stream stream, i64 rows, i64 heads, i64 batch) {
  return {name, stream, Dim(blocks_for(rows, warps_per_block), heads, batch), threads_per_block};
}

}  // namespace

void plain_attend_more(
    gpu::Stream stream, const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen) {
  launch(attend_more_kernel,
      over("plain_attend_more", stream, seen.queries, shape.heads, shape.batch), m,
      geometry_of(shape), seen_of(seen));
}

void plain_attend_more_backward(gpu::Stream stream, const MoreKeysGradient& m,
    const AttentionShape& shape, const SeenKeys& seen) {
  launch(more_query_kernel,
      over("plain_attend_more_backward of q", stream, seen.queries, shape.heads, shape.batch), m,
      geometry_of(shape), seen_of(seen));
  launch(more_key_kernel,
      over("plain_attend_more_backward of k, v", stream, seen.keys, shape.kv_heads, shape.batch), m,
      geometry_of(shape), seen_of(seen));
}

}  // namespace shardbench::kernels
