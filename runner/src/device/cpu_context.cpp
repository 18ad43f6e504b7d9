// SPDX-License-Identifier: Apache-2.0
// Attention over keys of another rank, all of which the named queries see, added to what there
// is of their own; and columns of matrices.
#include "device/cpu_device.hpp"

#include <algorithm>
#include <cmath>

namespace shardbench {
namespace {

/// One head of one sequence: queries in rows of q, k, v, keys and values in rows of [k | v].
template <typename T>
struct CrossHead {
  const T* q;
  const T* k;
  const T* v;
  i64 q_row;
  i64 k_row;
  i64 out_row;
  i64 dim;
  T scale;
};

template <typename T>
CrossHead<T> cross_head(
    const void* qkv, const void* keys, const AttentionShape& s, i64 batch, i64 head) {
  const i64 kv = head / (s.heads / s.kv_heads);
  const i64 k_row = 2 * s.kv_heads * s.head_dim;
  const T* k = static_cast<const T*>(keys) + batch * s.seq_len * k_row;
  return {static_cast<const T*>(qkv) + batch * s.seq_len * s.row() + head * s.head_dim,
      k + kv * s.head_dim, k + (s.kv_heads + kv) * s.head_dim, s.row(), k_row, s.heads * s.head_dim,
      s.head_dim, T(1) / std::sqrt(static_cast<T>(s.head_dim))};
}

/// rows × keys, of queries from `first` on.
template <typename T>
void cross_scores(CpuDevice<T>& device, T* out, const CrossHead<T>& h, const SeenKeys& block) {
  device.gemm({.transpose_b = Transpose::yes,
      .m = block.queries,
      .n = block.keys,
      .k = h.dim,
      .a = h.q + block.first_query * h.q_row,
      .lda = h.q_row,
      .b = h.k,
      .ldb = h.k_row,
      .c = out,
      .ldc = block.keys});
}

/// A row's scores become its share of the probabilities over all keys so far; what there was is
/// scaled to that.
template <typename T>
void merge_row(T* scores, i64 keys, T scale, T* out, i64 dim, T& lse) {
  const T maximum = *std::max_element(scores, scores + keys) * scale;
  T sum = 0;
  for (i64 j = 0; j < keys; ++j)
    sum += std::exp(scores[j] * scale - maximum);
  const T more = maximum + std::log(sum);
  const T higher = std::max(lse, more);
  const T both = higher + std::log(std::exp(lse - higher) + std::exp(more - higher));
  const T before = std::exp(lse - both);
  for (i64 j = 0; j < keys; ++j)
    scores[j] = std::exp(scores[j] * scale - both);
  for (i64 j = 0; j < dim; ++j)
    out[j] *= before;
  lse = both;
}

/// Queries in blocks, each against all keys that are seen.
template <typename Call>
void for_query_blocks(const SeenKeys& seen, Call call) {
  const i64 end = seen.first_query + seen.queries;
  for (i64 first = seen.first_query; first < end; first += query_block)
    call(SeenKeys{first, std::min(query_block, end - first), seen.keys});
}

template <typename T>
struct AttendedRows {
  T* out;
  T* lse;
  i64 lse_row;
};

template <typename T>
void attend_head(CpuDevice<T>& device, const CrossHead<T>& h, T* p, const AttendedRows<T>& rows,
    const SeenKeys& block) {
  cross_scores(device, p, h, block);
  for (i64 i = 0; i < block.queries; ++i) {
    const i64 query = block.first_query + i;
    merge_row(p + i * block.keys, block.keys, h.scale, rows.out + query * h.out_row, h.dim,
        rows.lse[query * rows.lse_row]);
  }
  device.gemm({.m = block.queries,
      .n = h.dim,
      .k = block.keys,
      .a = p,
      .lda = block.keys,
      .b = h.v,
      .ldb = h.k_row,
      .c = rows.out + block.first_query * h.out_row,
      .ldc = h.out_row,
      .accumulate = Accumulate::yes});
}

template <typename T>
struct CrossGradient {
  T* dq;
  T* dk;
  T* dv;
  const T* out;
  const T* dout;
  const T* lse;
  i64 lse_row;
};

/// Scores become probabilities, and dp their gradients.
template <typename T>
void cross_softmax_backward(
    T* p, T* dp, const CrossHead<T>& h, const CrossGradient<T>& g, const SeenKeys& block) {
  for (i64 i = 0; i < block.queries; ++i) {
    const i64 query = block.first_query + i;
    const T* out = g.out + query * h.out_row;
    const T* dout = g.dout + query * h.out_row;
    T delta = 0;
    for (i64 j = 0; j < h.dim; ++j)
      delta += out[j] * dout[j];
    T* row = p + i * block.keys;
    T* d = dp + i * block.keys;
    for (i64 j = 0; j < block.keys; ++j) {
      row[j] = std::exp(row[j] * h.scale - g.lse[query * g.lse_row]);
      d[j] = row[j] * (d[j] - delta) * h.scale;
    }
  }
}

template <typename T>
void cross_backward(CpuDevice<T>& device, const CrossHead<T>& h, const CrossGradient<T>& g, T* p,
    T* dp, const SeenKeys& block) {
  const T* dout = g.dout + block.first_query * h.out_row;
  cross_scores(device, p, h, block);
  device.gemm({.transpose_b = Transpose::yes,
      .m = block.queries,
      .n = block.keys,
      .k = h.dim,
      .a = dout,
      .lda = h.out_row,
      .b = h.v,
      .ldb = h.k_row,
      .c = dp,
      .ldc = block.keys});
  cross_softmax_backward(p, dp, h, g, block);
  // Gradients to keys and values: probabilities by dout, and their gradients by the queries.
  const auto to_keys = [&](T* into, const T* left, const T* right, i64 row) {
    device.gemm({.transpose_a = Transpose::yes,
        .m = block.keys,
        .n = h.dim,
        .k = block.queries,
        .a = left,
        .lda = block.keys,
        .b = right,
        .ldb = row,
        .c = into,
        .ldc = h.k_row,
        .accumulate = Accumulate::yes});
  };
  to_keys(g.dv, p, dout, h.out_row);
  to_keys(g.dk, dp, h.q + block.first_query * h.q_row, h.q_row);
  device.gemm({.m = block.queries,
      .n = h.dim,
      .k = block.keys,
      .a = dp,
      .lda = block.keys,
      .b = h.k,
      .ldb = h.k_row,
      .c = g.dq + block.first_query * h.q_row,
      .ldc = h.q_row,
      .accumulate = Accumulate::yes});
}

}  // namespace

template <typename T>
void CpuDevice<T>::attend_more(const MoreKeys& m, const AttentionShape& s, const SeenKeys& seen) {
  for (i64 batch = 0; batch < s.batch; ++batch)
    for (i64 head = 0; head < s.heads; ++head) {
      const auto h = cross_head<T>(m.qkv, m.keys, s, batch, head);
      const AttendedRows<T> rows{
          static_cast<T*>(m.out) + batch * s.seq_len * h.out_row + head * h.dim,
          static_cast<T*>(m.lse) + batch * s.seq_len * s.heads + head, s.heads};
      for_query_blocks(seen, [&](const SeenKeys& block) {
        attend_head(*this, h, static_cast<T*>(m.workspace), rows, block);
      });
    }
}

template <typename T>
void CpuDevice<T>::attend_more_backward(
    const MoreKeysGradient& m, const AttentionShape& s, const SeenKeys& seen) {
  T* p = static_cast<T*>(m.workspace);
  T* dp = p + std::min(query_block, s.seq_len) * s.seq_len;
  for (i64 batch = 0; batch < s.batch; ++batch)
    for (i64 head = 0; head < s.heads; ++head) {
      const auto h = cross_head<T>(m.qkv, m.keys, s, batch, head);
      const i64 out_at = batch * s.seq_len * h.out_row + head * h.dim;
      const CrossGradient<T> g{static_cast<T*>(m.dqkv) + (h.q - static_cast<const T*>(m.qkv)),
          static_cast<T*>(m.dkeys) + (h.k - static_cast<const T*>(m.keys)),
          static_cast<T*>(m.dkeys) + (h.v - static_cast<const T*>(m.keys)),
          static_cast<const T*>(m.out) + out_at, static_cast<const T*>(m.dout) + out_at,
          static_cast<const T*>(m.lse) + batch * s.seq_len * s.heads + head, s.heads};
      for_query_blocks(
          seen, [&](const SeenKeys& block) { cross_backward(*this, h, g, p, dp, block); });
    }
}

template <typename T>
void CpuDevice<T>::copy_columns(const Columns& c) {
  for (i64 i = 0; i < c.rows; ++i)
    std::copy_n(static_cast<const T*>(c.from) + i * c.from_row, c.width,
        static_cast<T*>(c.to) + i * c.to_row);
}

template <typename T>
void CpuDevice<T>::add_columns(const Columns& c) {
  for (i64 i = 0; i < c.rows; ++i) {
    const T* from = static_cast<const T*>(c.from) + i * c.from_row;
    T* to = static_cast<T*>(c.to) + i * c.to_row;
    for (i64 j = 0; j < c.width; ++j)
      to[j] += from[j];
  }
}

#define SHARDBENCH_INSTANTIATE(T)                                       \
  template void CpuDevice<T>::attend_more(                              \
      const MoreKeys&, const AttentionShape&, const SeenKeys&);         \
  template void CpuDevice<T>::attend_more_backward(                     \
      const MoreKeysGradient&, const AttentionShape&, const SeenKeys&); \
  template void CpuDevice<T>::copy_columns(const Columns&);             \
  template void CpuDevice<T>::add_columns(const Columns&);
SHARDBENCH_INSTANTIATE(float)
SHARDBENCH_INSTANTIATE(double)
#undef SHARDBENCH_INSTANTIATE

}  // namespace shardbench
