// SPDX-License-Identifier: Apache-2.0
// Gradient of causal attention by tensor cores, after FlashAttention-2 (Dao, 2023).
//
// A block has a tile of keys and values of one head and goes over the tiles of queries that
// see them, of all heads that share the keys: dk and dv stay in registers. Scores are computed
// transposed, so that P and dS, [keys, queries], are at once what dv += P·dout and dk += dS·q
// take from registers; dS alone goes through shared memory, for dq += dSᵀ·k. dq is summed over
// the blocks by atomic additions in fp32, in an order that differs from run to run.
//
// With s = scale·q·k: P = exp(s − lse), dS = P·(dout·v − Σ dout·out), dk = scale·dSᵀ·q,
// dq = scale·dS·k. Keys of another rank are all seen: P comes from the lse over the keys of all
// ranks, and the gradients are added to what is there.
#include "cuda/attention_kernels.hpp"
#include "cuda/attention_tiles.hpp"

namespace shardbench::kernels {
namespace {

constexpr int threads = 256;  // threads of the kernels before and after the main one
constexpr int warp_keys = 16;

/// How a block is cut: each warp has 16 keys; with two buffers the next queries are copied
/// while these are worked on, with one while dq is summed.
template <int warp_count, int buffer_count>
struct Cut {
  static constexpr int warps = warp_count;
  static constexpr int threads = warps * warp_size;
  static constexpr int key_tile = warps * warp_keys;
  static constexpr int buffers = buffer_count;
};
using WideCut = Cut<8, 2>;
/// Cut for GPUs whose blocks have 99 KiB of shared memory (8.6, 8.9, 12.0): heads of 128 would need
/// 145.
using NarrowCut = Cut<4, 1>;
constexpr i64 least_shared_bytes = 99 << 10;

constexpr int query_tile = static_cast<int>(backward_query_tile);
constexpr int query_columns = query_tile / 8;
constexpr int query_strips = query_tile / 16;

struct Geometry {
  int seq_len;  // tokens from one sequence to the next
  int queries;
  int keys;
  int heads;
  int kv_heads;
  int query_tiles;
  int row;      // values from one token to the next of q
  int key_row;  // values from one token to the next of keys
  int out_row;  // values from one token to the next of out and dout
  float scale;
};

/// Beginnings of the arrays: the first query or key of the first head.
struct BackwardOperands {
  Bf16* dkeys;
  const Bf16* dout;
  const Bf16* q;
  const Bf16* keys;
  const float* statistics;  // [sequence, head, tile, 2, query_tile]
  float* dq;                // [sequence, head, tile, query_tile · dim]
};

template <int dim, typename C>
struct SharedTiles {
  Bf16 k[C::key_tile * dim];
  Bf16 v[C::key_tile * dim];
  Bf16 q[C::buffers][query_tile * dim];
  Bf16 dout[C::buffers][query_tile * dim];
  Bf16 ds[C::key_tile * query_tile];
  float statistics[C::buffers][2][query_tile];
};

struct StatisticsOperands {
  float* statistics;
  const Bf16* out;
  const Bf16* dout;
  const float* lse;
};

template <int columns>
using Sums = float[columns][4];

template <int columns>
__device__ inline void clear(Sums<columns>& sums) {
#pragma unroll
  for (int n = 0; n < columns; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sums[n][i] = 0;
}

/// A warp's [16 keys, 64 queries] in bf16, as the A of products over the queries: half the
/// registers of the sums that it comes from.
using Packed = Fragment[query_strips];

__device__ inline void pack(Packed& to, const Sums<query_columns>& sums) {
#pragma unroll
  for (int strip = 0; strip < query_strips; ++strip)
    sums_to_a(to[strip], sums[2 * strip], sums[2 * strip + 1]);
}
/// The two values of column tile n that this lane has in row g (half 0) or g + 8.
__device__ inline std::uint32_t pair_of(const Packed& packed, int n, int half) {
  return packed[n / 2][n % 2 * 2 + half];
}

/// sums[16, 64] = a[first_row and on, dim] · b[64, dim]ᵀ.
template <int dim>
__device__ inline void multiply_rows(
    Sums<query_columns>& sums, const Bf16* a, int first_row, const Bf16* b) {
  clear<query_columns>(sums);
  const int below = below_first<dim>();
  const int beside = beside_first<dim>();
  // Unrolled whole, more fragments are loaded ahead than there are registers for.
#pragma unroll 4
  for (int step = 0; step < dim / 16; ++step) {
    Fragment left;
    load_a<dim>(left, a, below, first_row, 2 * step);
#pragma unroll
    for (int n = 0; n < query_columns; n += 2) {
      Fragment right;
      load_b<dim>(right, b, beside, 8 * n, 2 * step);
      multiply_add(sums[n], left, right[0], right[1]);
      multiply_add(sums[n + 1], left, right[2], right[3]);
    }
  }
}

/// sums[16, dim] += a[16, 64] · b[64, dim].
template <int dim>
__device__ inline void add_product(Sums<dim / 8>& sums, const Packed& a, const Bf16* b) {
  const int below = below_first<dim>();
#pragma unroll
  for (int step = 0; step < query_strips; ++step) {
#pragma unroll
    for (int n = 0; n < dim / 8; n += 2) {
      Fragment right;
      load_b_transposed<dim>(right, b, below, 16 * step, n);
      multiply_add(sums[n], a[step], right[0], right[1]);
      multiply_add(sums[n + 1], a[step], right[2], right[3]);
    }
  }
}

/// p[16 keys, 64 queries] = exp2(s · log2_scale − lse2), 0 for a key after its query. lse2 is
/// +∞ if there is no query. Where keys end, p is that of a score of 0: it goes into rows of
/// dk and dv that nobody writes, and meets zeros of k in dq.
template <KeysOf keys_of>
__device__ inline void probabilities(Packed& p, Sums<query_columns>& s, const float* lse2,
    float log2_scale, int first_key, int first_query) {
  const int key = first_key + lane_index() / 4;
  const bool crosses_diagonal =
      keys_of == KeysOf::this_rank && first_key + warp_keys - 1 > first_query;
#pragma unroll
  for (int n = 0; n < query_columns; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * n + lane_index() % 4 * 2 + i % 2;
      const bool hidden = crosses_diagonal && key + i / 2 * 8 > first_query + column;
      const float value = fast_exp2(s[n][i] * log2_scale - lse2[column]);
      s[n][i] = hidden ? 0 : value;
    }
  pack(p, s);
}

/// ds = p · (d_p − delta), the gradient to the scores from that to the probabilities.
__device__ inline void score_gradient(
    Packed& ds, Sums<query_columns>& d_p, const Packed& p, const float* delta) {
#pragma unroll
  for (int n = 0; n < query_columns; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t pair = pair_of(p, n, half);
      const int column = 8 * n + lane_index() % 4 * 2;
      d_p[n][2 * half] = low_half(pair) * (d_p[n][2 * half] - delta[column]);
      d_p[n][2 * half + 1] = high_half(pair) * (d_p[n][2 * half + 1] - delta[column + 1]);
    }
  pack(ds, d_p);
}

/// The warp's rows of ds[keys, queries].
__device__ inline void store_ds(Bf16* to, const Packed& ds) {
  to += warp_index() * warp_keys * query_tile;
  const int offset =
      recomputed(tile_offset<query_tile>(lane_index() / 4, 0) + lane_index() % 4 * 2);
#pragma unroll
  for (int n = 0; n < query_columns; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store_pair(to + moved<query_tile>(offset, 8 * half, n), pair_of(ds, n, half));
}

// How dq[64, dim] of a tile of queries is divided among the warps: strips of 16 queries, and
// each strip in parts of columns. Where a part would be less than 16 columns, half of the warps
// have none.
template <int dim, typename C>
constexpr int dq_parts = dim >= 32 ? C::warps / query_strips : 1;
template <int dim, typename C>
constexpr int dq_columns = dim / 8 / dq_parts<dim, C>;

/// Offset of a fragment in the workspace's dq of one tile of queries. It has the 16×8 values of
/// strip `strip` and column tile `n`; each lane has four of them.
template <int dim>
__host__ __device__ constexpr int dq_fragment(int strip, int n) {
  return (strip * (dim / 8) + n) * warp_size * 4;
}

/// dq[64, dim] += dsᵀ · k.
template <int dim, typename C, KeysOf keys_of>
__device__ inline void add_to_dq(
    float* dq, const Bf16* ds, const Bf16* k, int first_key, int first_query) {
  constexpr int columns = dq_columns<dim, C>;
  const int strip = warp_index() % query_strips;
  const int part = warp_index() / query_strips;
  if (part >= dq_parts<dim, C>) return;
  const int first_column = part * columns;
  Sums<columns> sums;
  clear<columns>(sums);
  const int beside = beside_first<query_tile>();
  const int below = below_first<dim>();
  for (int row = 0; row < C::key_tile; row += 16) {
    // Keys from here on are after all queries of the strip.
    if (keys_of == KeysOf::this_rank && first_key + row > first_query + 16 * strip + 15) break;
    Fragment left;
    load_a_transposed<query_tile>(left, ds, beside, row, 2 * strip);
#pragma unroll
    for (int n = 0; n < columns; n += 2) {
      Fragment right;
      load_b_transposed<dim>(right, k, below, row, first_column + n);
      multiply_add(sums[n], left, right[0], right[1]);
      multiply_add(sums[n + 1], left, right[2], right[3]);
    }
  }
#pragma unroll
  for (int n = 0; n < columns; ++n)
    atomic_add_vector(dq + dq_fragment<dim>(strip, first_column + n) + lane_index() * 4, sums[n]);
}

/// Writes two neighbours, or adds them to what is there.
template <KeysOf keys_of>
__device__ inline void give_pair(Bf16* to, float left, float right) {
  if (keys_of == KeysOf::other_ranks) {
    left += widen(to[0]);
    right += widen(to[1]);
  }
  store_pair(to, pack_bf16(left, right));
}

/// Rows of dk or dv of the warp, times `factor`.
template <int dim, KeysOf keys_of>
__device__ inline void store_rows(
    Bf16* to, const Sums<dim / 8>& sums, float factor, int stride, int valid) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane_index() / 4 + 8 * half;
    if (row >= valid) continue;
    Bf16* start = to + static_cast<i64>(row) * stride + lane_index() % 4 * 2;
#pragma unroll
    for (int n = 0; n < dim / 8; ++n)
      give_pair<keys_of>(start + 8 * n, sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor);
  }
}

/// Offset of a key among the keys; its value is kv_heads · dim further.
template <int dim>
__device__ inline i64 key_offset(int sequence, int kv_head, int key, const Geometry& g) {
  return (static_cast<i64>(sequence) * g.seq_len + key) * g.key_row + kv_head * dim;
}

/// A tile of queries of one head; a block goes over the tiles of a head, then to the next head.
struct Round {
  int head;
  int tile;

  __device__ Round next(int first_tile, int tiles) const {
    return tile + 1 < tiles ? Round{head, tile + 1} : Round{head + 1, first_tile};
  }
};

/// Number of the round's tile among those of all sequences and heads.
__device__ inline i64 tile_number(int sequence, Round round, const Geometry& g) {
  return (static_cast<i64>(sequence) * g.heads + round.head) * g.query_tiles + round.tile;
}

/// Starts to copy the round's queries, dout and statistics.
template <int dim, typename C>
__device__ inline void load_round(SharedTiles<dim, C>& shared, int buffer,
    const BackwardOperands& a, int sequence, Round round, const Geometry& g) {
  const int first = round.tile * query_tile;
  const i64 token = static_cast<i64>(sequence) * g.seq_len + first;
  const int valid = g.queries - first;
  load_tile<dim, query_tile, C::threads>(
      shared.q[buffer], a.q + token * g.row + round.head * dim, g.row, valid);
  load_tile<dim, query_tile, C::threads>(
      shared.dout[buffer], a.dout + token * g.out_row + round.head * dim, g.out_row, valid);
  constexpr int chunk_floats = 4;
  const int i = static_cast<int>(threadIdx.x) * chunk_floats;
  if (i < 2 * query_tile)
    copy_async(&shared.statistics[buffer][0][0] + i,
        a.statistics + tile_number(sequence, round, g) * 2 * query_tile + i, true);
  end_copy_group();
}

/// blockIdx.x is sequence · kv_heads + kv head; blockIdx.y is the tile of keys: the first is
/// seen by the most queries, so that the longest work starts first.
template <int dim, typename C, KeysOf keys_of>
__global__ void __launch_bounds__(C::threads, 1) backward_kernel(BackwardOperands a, Geometry g) {
  SharedTiles<dim, C>& shared = *dynamic_shared<SharedTiles<dim, C>>();
  const int sequence = static_cast<int>(blockIdx.x) / g.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.x) % g.kv_heads;
  const int first_key = static_cast<int>(blockIdx.y) * C::key_tile;
  constexpr bool causal = keys_of == KeysOf::this_rank;
  const int first_tile = causal ? first_key / query_tile : 0;
  const int end_head = (kv_head + 1) * (g.heads / g.kv_heads);

  const Bf16* k = a.keys + key_offset<dim>(sequence, kv_head, first_key, g);
  load_tile<dim, C::key_tile, C::threads>(shared.k, k, g.key_row, g.keys - first_key);
  load_tile<dim, C::key_tile, C::threads>(
      shared.v, k + g.kv_heads * dim, g.key_row, g.keys - first_key);
  Round round{kv_head * (g.heads / g.kv_heads), first_tile};
  load_round(shared, 0, a, sequence, round, g);
  const int warp_row = warp_index() * warp_keys;
  const int warp_key = first_key + warp_row;
  Sums<dim / 8> dk;
  Sums<dim / 8> dv;
  clear<dim / 8>(dk);
  clear<dim / 8>(dv);
  for (int buffer = 0; round.head < end_head; buffer = C::buffers - 1 - buffer) {
    const int first_query = round.tile * query_tile;
    wait_for_copies<0>();
    sync_block();  // this round's queries are there, and all are done with the last round
    const Round next = round.next(first_tile, g.query_tiles);
    if (C::buffers == 2 && next.head < end_head)
      load_round(shared, 1 - buffer, a, sequence, next, g);
    Packed ds = {};
    if (!causal || warp_key < first_query + query_tile) {
      Packed p;
      Sums<query_columns> sums;
      multiply_rows<dim>(sums, shared.k, warp_row, shared.q[buffer]);
      probabilities<keys_of>(
          p, sums, shared.statistics[buffer][0], g.scale * log2_e, warp_key, first_query);
      add_product<dim>(dv, p, shared.dout[buffer]);
      multiply_rows<dim>(sums, shared.v, warp_row, shared.dout[buffer]);
      score_gradient(ds, sums, p, shared.statistics[buffer][1]);
      add_product<dim>(dk, ds, shared.q[buffer]);
    }
    store_ds(shared.ds, ds);
    sync_block();  // ds is whole, and all are done with the queries
    if (C::buffers == 1 && next.head < end_head) load_round(shared, 0, a, sequence, next, g);
    add_to_dq<dim, C, keys_of>(a.dq + tile_number(sequence, round, g) * query_tile * dim, shared.ds,
        shared.k, first_key, first_query);
    round = next;
  }
  const int valid = g.keys - warp_key;
  Bf16* to = a.dkeys + key_offset<dim>(sequence, kv_head, recomputed(warp_key), g);
  store_rows<dim, keys_of>(to, dk, g.scale, g.key_row, valid);
  store_rows<dim, keys_of>(to + g.kv_heads * dim, dv, 1, g.key_row, valid);
}

/// statistics: of each query its lse in base 2 and Σ dout·out; +∞ and 0 for the queries that
/// fill the last tile. dim / 8 lanes have one query and head; blockIdx.y is the sequence.
template <int dim>
__global__ void __launch_bounds__(threads)
    statistics_kernel(StatisticsOperands operands, Geometry g) {
  constexpr int lanes = dim / chunk_values;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const i64 item = global_thread() / lanes;
  const int head = static_cast<int>(item % g.heads);
  const i64 query = item / g.heads;
  const i64 sequence = blockIdx.y;
  const bool inside = query < g.queries;
  const i64 token = sequence * g.seq_len + (inside ? query : 0);
  const i64 at = token * g.out_row + head * dim + lane * chunk_values;
  const Floats<chunk_values> a = load_vector(operands.out + at);
  const Floats<chunk_values> b = load_vector(operands.dout + at);
  float delta = 0;
#pragma unroll
  for (int i = 0; i < chunk_values; ++i)
    delta += a.at[i] * b.at[i];
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    delta += shuffle_xor(delta, distance);
  const i64 tile = query / query_tile;
  if (lane != 0 || tile >= g.query_tiles) return;
  float* to = operands.statistics +
      ((sequence * g.heads + head) * g.query_tiles + tile) * 2 * query_tile + query % query_tile;
  to[0] = inside ? operands.lse[token * g.heads + head] * log2_e : INFINITY;
  to[query_tile] = inside ? delta : 0;
}

/// dq from fragments to rows, times scale; one thread has one lane's four values.
template <int dim, KeysOf keys_of>
__global__ void __launch_bounds__(threads) store_dq_kernel(Bf16* to, const float* dq, Geometry g) {
  constexpr int fragments = query_strips * dim / 8;
  const i64 thread = global_thread();
  const int lane = static_cast<int>(thread % warp_size);
  const int fragment = static_cast<int>(thread / warp_size % fragments);
  const i64 tile = thread / warp_size / fragments;
  const int head = static_cast<int>(tile / g.query_tiles % g.heads);
  const i64 sequence = tile / g.query_tiles / g.heads;
  const int strip = fragment / (dim / 8);
  const int column = fragment % (dim / 8) * 8 + lane % 4 * 2;
  const int query = static_cast<int>(tile % g.query_tiles) * query_tile + strip * 16 + lane / 4;
  const Floats<4> sums = load_vector(
      dq + tile * query_tile * dim + dq_fragment<dim>(strip, fragment % (dim / 8)) + lane * 4);
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (query + 8 * half < g.queries)
      give_pair<keys_of>(
          to + (sequence * g.seq_len + query + 8 * half) * g.row + head * dim + column,
          sums.at[2 * half] * g.scale, sums.at[2 * half + 1] * g.scale);
}

/// Arguments of a launch; dq's workspace is that of as many queries.
struct Backward {
  Geometry geometry;
  StatisticsOperands statistics;
  BackwardOperands main;
  Bf16* dq;
};

template <int dim, typename C, KeysOf keys_of>
void launch_main(gpu::Stream stream, const Backward& b, i64 batch) {
  launch(backward_kernel<dim, C, keys_of>,
      {"attention_backward", stream,
          Dim(batch * b.geometry.kv_heads, blocks_for(b.geometry.keys, C::key_tile)), C::threads,
          i64{sizeof(SharedTiles<dim, C>)}},
      b.main, b.geometry);
}

template <KeysOf keys_of, int dim>
void launch_backward(gpu::Stream stream, const Backward& b, i64 batch) {
  const Geometry& g = b.geometry;
  const i64 padded_rows = i64{g.query_tiles} * query_tile * g.heads;
  const i64 dq_floats = batch * padded_rows * dim;
  launch(statistics_kernel<dim>,
      {"attention_backward, statistics", stream,
          Dim(blocks_for(padded_rows * dim / chunk_values, threads), batch), threads},
      b.statistics, g);
  gpu::zero(stream, b.main.dq, dq_floats * i64{sizeof(float)});
  constexpr i64 wide_bytes = sizeof(SharedTiles<dim, WideCut>);
  if constexpr (wide_bytes > least_shared_bytes) {
    if (wide_bytes > gpu::most_shared_bytes())
      launch_main<dim, NarrowCut, keys_of>(stream, b, batch);
    else
      launch_main<dim, WideCut, keys_of>(stream, b, batch);
  } else {
    launch_main<dim, WideCut, keys_of>(stream, b, batch);
  }
  launch(store_dq_kernel<dim, keys_of>,
      {"attention_backward, dq", stream, blocks_for(dq_floats / 4, threads), threads}, b.dq,
      static_cast<const float*>(b.main.dq), g);
}

template <KeysOf keys_of>
void launch_backward(gpu::Stream stream, const Backward& b, const AttentionShape& s) {
  switch (s.head_dim) {
    case 16:
      return launch_backward<keys_of, 16>(stream, b, s.batch);
    case 32:
      return launch_backward<keys_of, 32>(stream, b, s.batch);
    case 64:
      return launch_backward<keys_of, 64>(stream, b, s.batch);
    default:
      return launch_backward<keys_of, 128>(stream, b, s.batch);
  }
}

/// Geometry of a shape with this number of queries.
Geometry geometry_of(const AttentionShape& s, i64 queries) {
  AttentionShape of_queries = s;
  of_queries.seq_len = queries;
  return {.seq_len = static_cast<int>(s.seq_len),
      .queries = static_cast<int>(queries),
      .keys = static_cast<int>(s.seq_len),
      .heads = static_cast<int>(s.heads),
      .kv_heads = static_cast<int>(s.kv_heads),
      .query_tiles = static_cast<int>(attention_workspace(of_queries).tiles),
      .row = static_cast<int>(s.row()),
      .key_row = static_cast<int>(s.row()),
      .out_row = static_cast<int>(s.heads * s.head_dim),
      .scale = score_scale(s)};
}

/// Beginning of the gradient to q in the workspace.
float* dq_in(float* statistics, const Geometry& g, i64 batch) {
  return statistics + 2 * batch * g.heads * g.query_tiles * query_tile;
}

}  // namespace

void tiled_attention_backward(
    gpu::Stream stream, const AttentionGradient& g, const AttentionShape& shape) {
  const Geometry geometry = geometry_of(shape, shape.seq_len);
  float* statistics = static_cast<float*>(g.workspace);
  const i64 keys_at = shape.heads * shape.head_dim;
  launch_backward<KeysOf::this_rank>(stream,
      {geometry, {statistics, g.out, g.dout, g.lse},
          {g.dqkv + keys_at, g.dout, g.qkv, g.qkv + keys_at, statistics,
              dq_in(statistics, geometry, shape.batch)},
          g.dqkv},
      shape);
}

void tiled_attend_more_backward(gpu::Stream stream, const MoreKeysGradient& g,
    const AttentionShape& shape, const SeenKeys& seen) {
  Geometry geometry = geometry_of(shape, seen.queries);
  geometry.keys = static_cast<int>(seen.keys);
  geometry.key_row = static_cast<int>(2 * shape.kv_heads * shape.head_dim);
  float* statistics = static_cast<float*>(g.workspace);
  const i64 row_at = seen.first_query * shape.row();
  const i64 out_at = seen.first_query * shape.heads * shape.head_dim;
  launch_backward<KeysOf::other_ranks>(stream,
      {geometry,
          {statistics, g.out + out_at, g.dout + out_at, g.lse + seen.first_query * shape.heads},
          {g.dkeys, g.dout + out_at, g.qkv + row_at, g.keys, statistics,
              dq_in(statistics, geometry, shape.batch)},
          g.dqkv + row_at},
      shape);
}

}  // namespace shardbench::kernels
