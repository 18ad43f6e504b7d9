// SPDX-License-Identifier: Apache-2.0
// Causal attention by tensor cores: FlashAttention-2 (Dao, 2023, "FlashAttention-2: Faster
// Attention with Better Parallelism and Work Partitioning").
//
// A block has a tile of queries of one head and goes over the tiles of keys that they see,
// from the first key on, so that every row has seen a key from the start and no maximum is −∞.
// Each warp has two times 16 rows, so that what it loads of keys and values serves twice. The
// copy of a tile of values runs while scores are computed, that of the next keys while values
// are summed; two blocks share a multiprocessor and fill each other's gaps.
//
// Keys of another rank are all seen. Their sums are merged with what the queries have: with
// L = log(exp(lse) + exp(lse')), out becomes exp(lse − L)·out + exp(lse' − L)·out'. The sums
// are fp32, and each merge rounds out once.
#include "cuda/attention_kernels.hpp"
#include "cuda/attention_tiles.hpp"

namespace shardbench::kernels {
namespace {

constexpr int warps = 4;
constexpr int threads = warps * warp_size;
constexpr int warp_queries = 32;
constexpr int strips = warp_queries / 16;  // strips of 16 rows, the height of one product
constexpr int query_tile = warps * warp_queries;
constexpr int key_tile = 64;
constexpr int key_columns = key_tile / 8;

struct Geometry {
  int seq_len;  // tokens from one sequence to the next
  int queries;
  int keys;
  int heads;
  int kv_heads;
  int row;           // values from one token to the next of q
  int key_row;       // values from one token to the next of keys
  float log2_scale;  // scores times this are in base 2
};

struct ForwardOperands {
  Bf16* out;
  float* lse;
  const Bf16* q;     // the first query of the first head; out and lse begin there too
  const Bf16* keys;  // the first key of the first head
};

template <int dim>
struct Accumulators {
  float out[strips][dim / 8][4];
  // Figures of rows g and g + 8 of each strip. The sums are this lane's part; the maxima are of the
  // scores times log2_scale, over all lanes.
  float maximum[strips][2];
  float sum[strips][2];
};

using Scores = float[strips][key_columns][4];
/// Probabilities in bf16, as the A of products over the keys: half the registers of the scores.
using Probabilities = Fragment[strips][key_tile / 16];

template <int dim>
__device__ inline void clear(Accumulators<dim>& a) {
#pragma unroll
  for (int s = 0; s < strips; ++s) {
#pragma unroll
    for (int n = 0; n < dim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a.out[s][n][i] = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      a.maximum[s][half] = -INFINITY;
      a.sum[s][half] = 0;
    }
  }
}

/// scores[32, 64] = q[first_row of the tile and on, dim] · k[64, dim]ᵀ.
template <int dim>
__device__ inline void compute_scores(Scores& scores, const Bf16* q, int first_row, const Bf16* k) {
#pragma unroll
  for (int s = 0; s < strips; ++s)
#pragma unroll
    for (int n = 0; n < key_columns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scores[s][n][i] = 0;
  const int below = below_first<dim>();
  const int beside = beside_first<dim>();
#pragma unroll
  for (int step = 0; step < dim / 16; ++step) {
    Fragment a[strips];
#pragma unroll
    for (int s = 0; s < strips; ++s)
      load_a<dim>(a[s], q, below, first_row + 16 * s, 2 * step);
#pragma unroll
    for (int n = 0; n < key_columns; n += 2) {
      Fragment b;
      load_b<dim>(b, k, beside, 8 * n, 2 * step);
#pragma unroll
      for (int s = 0; s < strips; ++s) {
        multiply_add(scores[s][n], a[s], b[0], b[1]);
        multiply_add(scores[s][n + 1], a[s], b[2], b[3]);
      }
    }
  }
}

/// Scores of keys after their query become −∞. `first_query` is the warp's.
__device__ inline void mask_scores(Scores& scores, int first_query, int first_key) {
  const int row = first_query + lane_index() / 4;
  const int column = first_key + lane_index() % 4 * 2;
#pragma unroll
  for (int s = 0; s < strips; ++s)
#pragma unroll
    for (int n = 0; n < key_columns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (column + 8 * n + i % 2 > row + 16 * s + i / 2 * 8) scores[s][n][i] = -INFINITY;
}

/// Scores from column `valid` on become −∞: there are no keys.
__device__ inline void mask_end(Scores& scores, int valid) {
  const int column = lane_index() % 4 * 2;
#pragma unroll
  for (int s = 0; s < strips; ++s)
#pragma unroll
    for (int n = 0; n < key_columns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (column + 8 * n + i % 2 >= valid) scores[s][n][i] = -INFINITY;
}

/// p = exp2(score · log2_scale − maximum of the row so far); what was summed under a lower
/// maximum shrinks. Overwrites the scores.
template <int dim>
__device__ inline void softmax(
    Probabilities& p, Scores& scores, Accumulators<dim>& acc, float log2_scale) {
#pragma unroll
  for (int s = 0; s < strips; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = scores[s][0][2 * half];
#pragma unroll
      for (int n = 0; n < key_columns; ++n)
        highest = fmaxf(highest, fmaxf(scores[s][n][2 * half], scores[s][n][2 * half + 1]));
      // The four lanes that share the row.
      highest = fmaxf(highest, shuffle_xor(highest, 1));
      highest = fmaxf(highest, shuffle_xor(highest, 2));
      const float maximum = fmaxf(acc.maximum[s][half], highest * log2_scale);
      const float shrink = fast_exp2(acc.maximum[s][half] - maximum);
      acc.maximum[s][half] = maximum;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < key_columns; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[s][n][i] = fast_exp2(scores[s][n][i] * log2_scale - maximum);
          sum += scores[s][n][i];
        }
      acc.sum[s][half] = acc.sum[s][half] * shrink + sum;
#pragma unroll
      for (int n = 0; n < dim / 8; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          acc.out[s][n][i] *= shrink;
    }
#pragma unroll
    for (int step = 0; step < key_tile / 16; ++step)
      sums_to_a(p[s][step], scores[s][2 * step], scores[s][2 * step + 1]);
  }
}

/// out[32, dim] += p[32, 64] · v[64, dim].
template <int dim>
__device__ inline void add_values(Accumulators<dim>& acc, const Probabilities& p, const Bf16* v) {
  const int below = below_first<dim>();
#pragma unroll
  for (int step = 0; step < key_tile / 16; ++step) {
#pragma unroll
    for (int n = 0; n < dim / 8; n += 2) {
      Fragment b;
      load_b_transposed<dim>(b, v, below, 16 * step, n);
#pragma unroll
      for (int s = 0; s < strips; ++s) {
        multiply_add(acc.out[s][n], p[s][step], b[0], b[1]);
        multiply_add(acc.out[s][n + 1], p[s][step], b[2], b[3]);
      }
    }
  }
}

/// Shares of a sum: `kept` of what is there, and `added` of the new values.
struct Shares {
  float kept;
  float added;
  float lse;
};

__device__ inline Shares merged(float lse, float more) {
  const float higher = fmaxf(lse, more);
  const float both = higher + logf(expf(lse - higher) + expf(more - higher));
  return {expf(lse - both), expf(more - both), both};
}

/// Divides by the sums and writes the warp's rows, or merges them with what is there. out and
/// lse are those of the head and of the warp's first query; lanes write rows below `valid`.
template <int dim, KeysOf keys_of>
__device__ inline void store_rows(
    Bf16* out, float* lse, Accumulators<dim>& acc, int heads, int valid) {
#pragma unroll
  for (int s = 0; s < strips; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = acc.sum[s][half];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const int row = 16 * s + 8 * half + lane_index() / 4;
      Shares shares{0, 1, acc.maximum[s][half] * ln_2 + logf(sum)};
      if (keys_of == KeysOf::other_ranks) {
        // The lane that writes it reads it, for the four that share the row.
        const bool reads = row < valid && lane_index() % 4 == 0;
        float before = reads ? lse[static_cast<i64>(row) * heads] : 0;
        before += shuffle_xor(before, 1);
        before += shuffle_xor(before, 2);
        shares = merged(before, shares.lse);
      }
      if (row >= valid) continue;
      const float factor = shares.added / sum;
      Bf16* to = out + static_cast<i64>(row) * heads * dim + lane_index() % 4 * 2;
#pragma unroll
      for (int n = 0; n < dim / 8; ++n) {
        float left = acc.out[s][n][2 * half] * factor;
        float right = acc.out[s][n][2 * half + 1] * factor;
        if (keys_of == KeysOf::other_ranks) {
          left += shares.kept * widen(to[8 * n]);
          right += shares.kept * widen(to[8 * n + 1]);
        }
        store_pair(to + 8 * n, pack_bf16(left, right));
      }
      if (lane_index() % 4 == 0) lse[static_cast<i64>(row) * heads] = shares.lse;
    }
  }
}

struct HeadOfBlock {
  int head;
  i64 first_token;
};

__device__ inline HeadOfBlock head_of_block(const Geometry& g) {
  const int x = recomputed(static_cast<int>(blockIdx.x));
  return {x % g.heads, static_cast<i64>(x / g.heads) * g.seq_len};
}

/// blockIdx.x is sequence · heads + head; blockIdx.y counts tiles of queries from the last,
/// which sees the most keys, so that the longest work starts first.
template <int dim, KeysOf keys_of>
__global__ void __launch_bounds__(threads, 2) forward_kernel(ForwardOperands a, Geometry g) {
  constexpr bool causal = keys_of == KeysOf::this_rank;
  Bf16* q_tile = dynamic_shared<Bf16>();
  Bf16* k_tile = q_tile + query_tile * dim;
  Bf16* v_tile = k_tile + key_tile * dim;
  const int first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * query_tile;
  const int end = first_query + query_tile;
  const int seen = causal && end < g.keys ? end : g.keys;
  const int values_at = g.kv_heads * dim;  // offset from a key to its value

  const HeadOfBlock of = head_of_block(g);
  const Bf16* q = a.q + (of.first_token + first_query) * g.row + of.head * dim;
  const Bf16* k = a.keys + of.first_token * g.key_row + of.head / (g.heads / g.kv_heads) * dim;
  load_tile<dim, query_tile, threads>(q_tile, q, g.row, g.queries - first_query);
  load_tile<dim, key_tile, threads>(k_tile, k, g.key_row, g.keys);
  end_copy_group();
  const int warp_row = warp_index() * warp_queries;
  const int warp_query = first_query + warp_row;
  Accumulators<dim> acc;
  clear(acc);
  for (int first_key = 0; first_key < seen; first_key += key_tile) {
    const bool seen_by_warp = !causal || first_key < warp_query + warp_queries;
    Probabilities p = {};
    wait_for_copies<0>();
    sync_block();  // the keys are there, and all are done with the last values
    load_tile<dim, key_tile, threads>(v_tile, k + values_at, g.key_row, g.keys - first_key);
    end_copy_group();
    if (seen_by_warp) {
      Scores scores;
      compute_scores<dim>(scores, q_tile, warp_row, k_tile);
      if (causal && first_key + key_tile > warp_query + 1)
        mask_scores(scores, warp_query, first_key);
      if (!causal && first_key + key_tile > g.keys) mask_end(scores, g.keys - first_key);
      softmax(p, scores, acc, g.log2_scale);
    }
    wait_for_copies<0>();
    sync_block();  // the values are there, and all are done with the keys
    k += static_cast<i64>(key_tile) * g.key_row;
    if (first_key + key_tile < seen)
      load_tile<dim, key_tile, threads>(k_tile, k, g.key_row, g.keys - first_key - key_tile);
    end_copy_group();
    if (seen_by_warp) add_values(acc, p, v_tile);
  }
  const HeadOfBlock to = head_of_block(g);
  const i64 row = (to.first_token + warp_query) * g.heads + to.head;
  store_rows<dim, keys_of>(a.out + row * dim, a.lse + row, acc, g.heads, g.queries - warp_query);
}

template <KeysOf keys_of, int dim>
void launch_forward(const char* name, gpu::Stream stream, const ForwardOperands& operands,
    const Geometry& g, const AttentionShape& s) {
  const i64 shared_values = i64{query_tile + 2 * key_tile} * dim;
  launch(forward_kernel<dim, keys_of>,
      {name, stream, Dim(s.batch * s.heads, blocks_for(g.queries, query_tile)), threads,
          shared_values * i64{sizeof(Bf16)}},
      operands, g);
}

template <KeysOf keys_of>
void launch_forward(const char* name, gpu::Stream stream, const ForwardOperands& operands,
    const Geometry& g, const AttentionShape& s) {
  switch (s.head_dim) {
    case 16:
      return launch_forward<keys_of, 16>(name, stream, operands, g, s);
    case 32:
      return launch_forward<keys_of, 32>(name, stream, operands, g, s);
    case 64:
      return launch_forward<keys_of, 64>(name, stream, operands, g, s);
    default:
      return launch_forward<keys_of, 128>(name, stream, operands, g, s);
  }
}

Geometry geometry_of(const AttentionShape& s) {
  return {.seq_len = static_cast<int>(s.seq_len),
      .queries = static_cast<int>(s.seq_len),
      .keys = static_cast<int>(s.seq_len),
      .heads = static_cast<int>(s.heads),
      .kv_heads = static_cast<int>(s.kv_heads),
      .row = static_cast<int>(s.row()),
      .key_row = static_cast<int>(s.row()),
      .log2_scale = score_scale(s) * log2_e};
}

}  // namespace

void tiled_attention(
    gpu::Stream stream, Bf16* out, float* lse, const Bf16* qkv, const AttentionShape& shape) {
  launch_forward<KeysOf::this_rank>("attention", stream,
      {out, lse, qkv, qkv + shape.heads * shape.head_dim}, geometry_of(shape), shape);
}

void tiled_attend_more(
    gpu::Stream stream, const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen) {
  Geometry g = geometry_of(shape);
  g.queries = static_cast<int>(seen.queries);
  g.keys = static_cast<int>(seen.keys);
  g.key_row = static_cast<int>(2 * shape.kv_heads * shape.head_dim);
  const i64 first = seen.first_query;
  launch_forward<KeysOf::other_ranks>("attend_more", stream,
      {m.out + first * shape.heads * shape.head_dim, m.lse + first * shape.heads,
          m.qkv + first * shape.row(), m.keys},
      g, shape);
}

}  // namespace shardbench::kernels
