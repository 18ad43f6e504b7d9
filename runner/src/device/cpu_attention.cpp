// SPDX-License-Identifier: Apache-2.0
// Rotary embedding and causal grouped-query attention.
//
// Attention goes by blocks of queries against the keys that they may see: no [seq, seq] matrix
// is kept, only the log-sum-exp of each row, from which backward computes the probabilities
// again.
#include "device/cpu_device.hpp"

#include <algorithm>
#include <cmath>

namespace shardbench {
namespace {

/// One head of one sequence, as strided matrices over the packed rows.
template <typename T>
struct Head {
  const T* q;
  const T* k;
  const T* v;
  i64 row;      // stride of q, k, v
  i64 out_row;  // stride of out
  i64 dim;
  T scale;
};

template <typename T>
Head<T> head_at(const T* qkv, const AttentionShape& s, i64 batch, i64 head) {
  const T* base = qkv + batch * s.seq_len * s.row();
  const i64 kv = head / (s.heads / s.kv_heads);
  return {base + head * s.head_dim, base + (s.heads + kv) * s.head_dim,
      base + (s.heads + s.kv_heads + kv) * s.head_dim, s.row(), s.heads * s.head_dim, s.head_dim,
      T(1) / std::sqrt(static_cast<T>(s.head_dim))};
}

template <typename T>
void scores(CpuDevice<T>& device, T* out, const Head<T>& h, i64 first, i64 rows, i64 keys) {
  device.gemm({.transpose_b = Transpose::yes,
      .m = rows,
      .n = keys,
      .k = h.dim,
      .a = h.q + first * h.row,
      .lda = h.row,
      .b = h.k,
      .ldb = h.row,
      .c = out,
      .ldc = keys});
}

/// Scores of a block of queries: rows `first` to first + rows against the first `keys` keys.
template <typename T>
struct ScoreBlock {
  T* data;
  i64 rows;
  i64 keys;
  i64 first;

  T* row(i64 i) const { return data + i * keys; }
  i64 seen(i64 i) const { return first + i + 1; }
};

/// Scores to probabilities; writes the log-sum-exp of each row.
template <typename T>
void softmax_rows(const ScoreBlock<T>& block, T scale, T* lse, i64 lse_stride) {
  for (i64 i = 0; i < block.rows; ++i) {
    T* row = block.row(i);
    const i64 seen = block.seen(i);
    const T maximum = *std::max_element(row, row + seen) * scale;
    T sum = 0;
    for (i64 j = 0; j < seen; ++j) {
      row[j] = std::exp(row[j] * scale - maximum);
      sum += row[j];
    }
    const T inverse = T(1) / sum;
    for (i64 j = 0; j < seen; ++j)
      row[j] *= inverse;
    std::fill(row + seen, row + block.keys, T(0));
    lse[i * lse_stride] = maximum + std::log(sum);
  }
}

template <typename T>
void probabilities_from_lse(const ScoreBlock<T>& block, T scale, const T* lse, i64 lse_stride) {
  for (i64 i = 0; i < block.rows; ++i) {
    T* row = block.row(i);
    const i64 seen = block.seen(i);
    const T row_lse = lse[i * lse_stride];
    for (i64 j = 0; j < seen; ++j)
      row[j] = std::exp(row[j] * scale - row_lse);
    std::fill(row + seen, row + block.keys, T(0));
  }
}

/// d_scores = p · (d_p − Σ dout·out) · scale, in place of d_p.
template <typename T>
void softmax_backward(
    T* dp, const ScoreBlock<T>& block, const T* out, const T* dout, const Head<T>& h) {
  for (i64 i = 0; i < block.rows; ++i) {
    T delta = 0;
    for (i64 j = 0; j < h.dim; ++j)
      delta += out[i * h.out_row + j] * dout[i * h.out_row + j];
    const T* p = block.row(i);
    T* d = dp + i * block.keys;
    for (i64 j = 0; j < block.keys; ++j)
      d[j] = p[j] * (d[j] - delta) * h.scale;
  }
}

/// The heads of one packed row, all turned by one angle in one plane.
template <typename T>
void rotate_plane(T* row, i64 heads, i64 head_dim, T cosine, T sine) {
  for (i64 head = 0; head < heads; ++head) {
    T& x = row[head * head_dim];
    T& y = row[head * head_dim + head_dim / 2];
    const T turned = x * cosine - y * sine;
    y = x * sine + y * cosine;
    x = turned;
  }
}

}  // namespace

template <typename T>
void CpuDevice<T>::rope(void* qkv, const AttentionShape& s, Rotation rotation) {
  rope_at(qkv, s, {0, s.seq_len / 2}, rotation);
}

template <typename T>
void CpuDevice<T>::rope_at(
    void* qkv, const AttentionShape& s, const Positions& positions, Rotation rotation) {
  T* data = static_cast<T*>(qkv);
  const i64 half = s.head_dim / 2;
  const double sign = rotation == Rotation::forward ? 1.0 : -1.0;
  const i64 cut = s.seq_len / 2;
  for (i64 token = 0; token < s.seq_len; ++token) {
    const i64 position = token < cut ? positions.first + token : positions.second + token - cut;
    for (i64 i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(s.head_dim));
      const T c = static_cast<T>(std::cos(angle));
      const T sn = static_cast<T>(sign * std::sin(angle));
      for (i64 batch = 0; batch < s.batch; ++batch)
        rotate_plane(data + (batch * s.seq_len + token) * s.row() + i, s.heads + s.kv_heads,
            s.head_dim, c, sn);
    }
  }
}

template <typename T>
i64 CpuDevice<T>::attention_workspace_bytes(const AttentionShape& s) const {
  return attention_score_elements(s) * i64{sizeof(T)};
}

template <typename T>
void CpuDevice<T>::attention(
    void* out, void* lse, const void* qkv, void* workspace, const AttentionShape& s) {
  T* p = static_cast<T*>(workspace);
  for (i64 batch = 0; batch < s.batch; ++batch) {
    for (i64 head = 0; head < s.heads; ++head) {
      const Head<T> h = head_at(static_cast<const T*>(qkv), s, batch, head);
      T* o = static_cast<T*>(out) + batch * s.seq_len * h.out_row + head * h.dim;
      T* l = static_cast<T*>(lse) + batch * s.seq_len * s.heads + head;
      for (i64 first = 0; first < s.seq_len; first += query_block) {
        const i64 rows = std::min(query_block, s.seq_len - first);
        const i64 keys = first + rows;
        scores(*this, p, h, first, rows, keys);
        softmax_rows<T>({p, rows, keys, first}, h.scale, l + first * s.heads, s.heads);
        gemm({.m = rows,
            .n = h.dim,
            .k = keys,
            .a = p,
            .lda = keys,
            .b = h.v,
            .ldb = h.row,
            .c = o + first * h.out_row,
            .ldc = h.out_row});
      }
    }
  }
}

namespace {

template <typename T>
struct HeadGradient {
  T* dq;
  T* dk;
  T* dv;
  const T* out;
  const T* dout;
  const T* lse;
  i64 lse_row;
};

template <typename T>
void head_backward(
    CpuDevice<T>& device, const Head<T>& h, const HeadGradient<T>& g, i64 seq_len, T* workspace) {
  T* p = workspace;
  T* dp = workspace + std::min(query_block, seq_len) * seq_len;
  for (i64 first = 0; first < seq_len; first += query_block) {
    const i64 rows = std::min(query_block, seq_len - first);
    const i64 keys = first + rows;
    const T* dout = g.dout + first * h.out_row;
    const ScoreBlock<T> block{p, rows, keys, first};
    scores(device, p, h, first, rows, keys);
    probabilities_from_lse(block, h.scale, g.lse + first * g.lse_row, g.lse_row);
    device.gemm({.transpose_a = Transpose::yes,
        .m = keys,
        .n = h.dim,
        .k = rows,
        .a = p,
        .lda = keys,
        .b = dout,
        .ldb = h.out_row,
        .c = g.dv,
        .ldc = h.row,
        .accumulate = Accumulate::yes});
    device.gemm({.transpose_b = Transpose::yes,
        .m = rows,
        .n = keys,
        .k = h.dim,
        .a = dout,
        .lda = h.out_row,
        .b = h.v,
        .ldb = h.row,
        .c = dp,
        .ldc = keys});
    softmax_backward(dp, block, g.out + first * h.out_row, dout, h);
    device.gemm({.m = rows,
        .n = h.dim,
        .k = keys,
        .a = dp,
        .lda = keys,
        .b = h.k,
        .ldb = h.row,
        .c = g.dq + first * h.row,
        .ldc = h.row});
    device.gemm({.transpose_a = Transpose::yes,
        .m = keys,
        .n = h.dim,
        .k = rows,
        .a = dp,
        .lda = keys,
        .b = h.q + first * h.row,
        .ldb = h.row,
        .c = g.dk,
        .ldc = h.row,
        .accumulate = Accumulate::yes});
  }
}

}  // namespace

template <typename T>
void CpuDevice<T>::attention_backward(const AttentionGradient& g, const AttentionShape& s) {
  T* dqkv = static_cast<T*>(g.dqkv);
  // Heads of one group add into the same dk and dv.
  zero(dqkv, s.batch * s.seq_len * s.row() * i64{sizeof(T)});
  for (i64 batch = 0; batch < s.batch; ++batch) {
    for (i64 head = 0; head < s.heads; ++head) {
      const T* qkv = static_cast<const T*>(g.qkv);
      const Head<T> h = head_at(qkv, s, batch, head);
      const i64 out_at = batch * s.seq_len * h.out_row + head * h.dim;
      const HeadGradient<T> gradient{dqkv + (h.q - qkv), dqkv + (h.k - qkv), dqkv + (h.v - qkv),
          static_cast<const T*>(g.out) + out_at, static_cast<const T*>(g.dout) + out_at,
          static_cast<const T*>(g.lse) + batch * s.seq_len * s.heads + head, s.heads};
      head_backward(*this, h, gradient, s.seq_len, static_cast<T*>(g.workspace));
    }
  }
}

#define SHARDBENCH_INSTANTIATE(T)                                                                 \
  template void CpuDevice<T>::rope(void*, const AttentionShape&, Rotation);                       \
  template void CpuDevice<T>::rope_at(void*, const AttentionShape&, const Positions&, Rotation);  \
  template i64 CpuDevice<T>::attention_workspace_bytes(const AttentionShape&) const;              \
  template void CpuDevice<T>::attention(void*, void*, const void*, void*, const AttentionShape&); \
  template void CpuDevice<T>::attention_backward(const AttentionGradient&, const AttentionShape&);
SHARDBENCH_INSTANTIATE(float)
SHARDBENCH_INSTANTIATE(double)
#undef SHARDBENCH_INSTANTIATE

}  // namespace shardbench
