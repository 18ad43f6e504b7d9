// SPDX-License-Identifier: Apache-2.0
// Scores s = scale · q·kᵀ, P = softmax(s), out = P·v. Backward, with D = Σ dout·out of each
// query: P = exp(s − statistics), dv = Pᵀ·dout, ds = scale · P ∘ (dout·vᵀ − D), dk = dsᵀ·q, dq
// = ds·k.
#include "cudnn/cudnn_attention.hpp"

#include "cuda/attention_workspace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardbench {
namespace {

using Tensor = CudnnGraph::Tensor;
using Place = CudnnGraph::Place;

// Values that stand for an unseen score, and for no scaling.
float not_seen = std::numeric_limits<float>::lowest();
float unscaled = 1.0F;

/// Rows of heads within packed rows: [batch, heads, seq_len, head_dim].
Extents4 rows_of(const AttentionShape& s, i64 heads) {
  return {s.batch, heads, s.seq_len, s.head_dim};
}
Extents4 row_strides(const AttentionShape& s, i64 row) {
  return {s.seq_len * row, s.head_dim, row, 1};
}
Extents4 transposed(const Extents4& e) {
  return {e[0], e[1], e[3], e[2]};
}
Extents4 scores_of(const AttentionShape& s) {
  return {s.batch, s.heads, s.seq_len, s.seq_len};
}
Extents4 per_query(const AttentionShape& s) {
  return {s.batch, s.heads, s.seq_len, 1};
}
Extents4 per_query_strides(const AttentionShape& s) {
  return {s.heads * s.seq_len, s.seq_len, 1, 1};
}

Tensor number(CudnnGraph& graph) {
  return graph.tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CudnnData::fp32, Place::host);
}
/// Tensor of packed rows in memory.
Tensor rows(CudnnGraph& graph, const AttentionShape& s, i64 heads, i64 row) {
  return graph.tensor(rows_of(s, heads), row_strides(s, row), CudnnData::bf16, Place::memory);
}
Tensor turned_rows(CudnnGraph& graph, const AttentionShape& s, i64 heads, i64 row) {
  return graph.tensor(transposed(rows_of(s, heads)), transposed(row_strides(s, row)),
      CudnnData::bf16, Place::memory);
}
Tensor statistic(CudnnGraph& graph, const AttentionShape& s) {
  return graph.tensor(per_query(s), per_query_strides(s), CudnnData::fp32, Place::memory);
}

Tensor with(CudnnGraph& graph, CudnnPointwise mode, const Tensor& x, const Tensor& b,
    CudnnData data = CudnnData::fp32) {
  const Tensor y = graph.between(x.extents, data);
  graph.pointwise({.mode = mode, .x = &x, .b = &b}, y);
  return y;
}
Tensor of(CudnnGraph& graph, CudnnPointwise mode, const Tensor& x) {
  const Tensor y = graph.between(x.extents);
  graph.pointwise({.mode = mode, .x = &x}, y);
  return y;
}
Tensor product(CudnnGraph& graph, const Tensor& a, const Tensor& b, const Extents4& extents,
    CudnnData data = CudnnData::fp32) {
  const Tensor c = graph.between(extents, data);
  graph.multiply(a, b, c);
  return c;
}
Tensor reduced(CudnnGraph& graph, CudnnReduction how, const Tensor& x, const AttentionShape& s) {
  const Tensor y = graph.between(per_query(s));
  graph.reduce(how, x, y);
  return y;
}

/// The gradient to keys or values that a group of heads shares: into memory of `kv_heads`.
void sum_over_group(CudnnGraph& graph, const AttentionShape& s, const Tensor& left,
    const Tensor& right, const Tensor& to) {
  if (s.heads == s.kv_heads) {
    graph.multiply(left, right, to);
    return;
  }
  const Tensor of_heads = product(graph, left, right, rows_of(s, s.heads), CudnnData::bf16);
  graph.reduce(CudnnReduction::sum, of_heads, to);
}

/// [seq_len, seq_len] of each head the other way round, as bf16 for tensor cores.
Tensor turned_scores(CudnnGraph& graph, const AttentionShape& s, const Tensor& scores) {
  const i64 n = s.seq_len;
  const Tensor y =
      graph.tensor(scores_of(s), {s.heads * n * n, n * n, 1, n}, CudnnData::bf16, Place::between);
  graph.reshape(scores, y);
  return y;
}

}  // namespace

CudnnAttention::CudnnAttention(
    const CudnnTable& table, const CudnnTarget& target, const AttentionShape& shape)
    : table_(table),
      handle_(target.handle),
      shape_(shape),
      scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)))),
      forward_graph_(table),
      backward_graph_(table) {
  build_forward();
  build_backward();
  forward_graph_.finish(target);
  backward_graph_.finish(target);
}

std::string CudnnAttention::refusal() const {
  if (!forward_graph_.good()) return "cuDNN, attention: " + forward_graph_.refusal();
  if (!backward_graph_.good()) return "cuDNN, attention's backward: " + backward_graph_.refusal();
  return "";
}

/// A key after its query is not seen.
Tensor CudnnAttention::masked_scores(
    CudnnGraph& graph, const Tensor& scores, const Tensor& hidden) const {
  constexpr i64 query_axis = 2;
  constexpr i64 key_axis = 3;
  const auto index = [&](i64 axis) {
    const Tensor y = graph.between(scores.extents, CudnnData::int32);
    graph.pointwise(
        {.mode = CudnnPointwise::index, .x = &scores, .precision = CudnnData::int32, .axis = axis},
        y);
    return y;
  };
  const Tensor query = index(query_axis);
  const Tensor key = index(key_axis);
  const Tensor seen = graph.between(scores.extents, CudnnData::boolean);
  graph.pointwise({.mode = CudnnPointwise::greater_or_equal,
                      .x = &query,
                      .b = &key,
                      .precision = CudnnData::boolean},
      seen);
  const Tensor masked = graph.between(scores.extents);
  graph.pointwise({.mode = CudnnPointwise::select, .x = &scores, .b = &hidden, .t = &seen}, masked);
  return masked;
}

void CudnnAttention::build_forward() {
  CudnnGraph& g = forward_graph_;
  const AttentionShape& s = shape_;
  const Tensor q = rows(g, s, s.heads, s.row());
  const Tensor k = turned_rows(g, s, s.kv_heads, s.row());
  const Tensor v = rows(g, s, s.kv_heads, s.row());
  const Tensor out = rows(g, s, s.heads, s.heads * s.head_dim);
  const Tensor statistics = statistic(g, s);
  const Tensor scale = number(g);
  const Tensor hidden = number(g);
  const Tensor scaled = with(g, CudnnPointwise::multiply, product(g, q, k, scores_of(s)), scale);
  const Tensor masked = masked_scores(g, scaled, hidden);
  const Tensor most = reduced(g, CudnnReduction::max, masked, s);
  const Tensor exponentials =
      of(g, CudnnPointwise::exponential, with(g, CudnnPointwise::subtract, masked, most));
  const Tensor sums = reduced(g, CudnnReduction::sum, exponentials, s);
  const Tensor logarithms = of(g, CudnnPointwise::logarithm, sums);
  g.pointwise({.mode = CudnnPointwise::add, .x = &most, .b = &logarithms}, statistics);
  const Tensor probabilities = with(g, CudnnPointwise::divide, exponentials, sums, CudnnData::bf16);
  g.multiply(probabilities, v, out);
  forward_ids_ = {q.id, k.id, v.id, out.id, statistics.id, scale.id, hidden.id};
}

void CudnnAttention::build_backward() {
  CudnnGraph& g = backward_graph_;
  const AttentionShape& s = shape_;
  const i64 width = s.heads * s.head_dim;
  const Tensor q = rows(g, s, s.heads, s.row());
  const Tensor k = turned_rows(g, s, s.kv_heads, s.row());
  const Tensor v = turned_rows(g, s, s.kv_heads, s.row());
  const Tensor out = rows(g, s, s.heads, width);
  const Tensor dout = rows(g, s, s.heads, width);
  const Tensor statistics = statistic(g, s);
  const Tensor sums = statistic(g, s);
  const Tensor dq_sums = g.tensor(rows_of(s, s.heads),
      {width * s.seq_len, s.seq_len * s.head_dim, s.head_dim, 1}, CudnnData::fp32, Place::memory);
  const Tensor dq = rows(g, s, s.heads, s.row());
  const Tensor dk = rows(g, s, s.kv_heads, s.row());
  const Tensor dv = rows(g, s, s.kv_heads, s.row());
  const Tensor scale = number(g);
  const Tensor hidden = number(g);
  const Tensor one = number(g);

  const Tensor each = with(g, CudnnPointwise::multiply, dout, out);
  const Tensor summed = reduced(g, CudnnReduction::sum, each, s);
  g.pointwise({.mode = CudnnPointwise::multiply, .x = &summed, .b = &one}, sums);

  const Tensor scaled = with(g, CudnnPointwise::multiply, product(g, q, k, scores_of(s)), scale);
  const Tensor normed = with(g, CudnnPointwise::subtract, scaled, statistics);
  const Tensor probabilities = of(g, CudnnPointwise::exponential, masked_scores(g, normed, hidden));
  sum_over_group(g, s, turned_scores(g, s, probabilities), dout, dv);

  const Tensor to_probabilities = product(g, dout, v, scores_of(s));
  const Tensor to_scores = with(g, CudnnPointwise::multiply,
      with(g, CudnnPointwise::subtract, to_probabilities, sums), probabilities);
  const Tensor ds = with(g, CudnnPointwise::multiply, to_scores, scale, CudnnData::bf16);
  sum_over_group(g, s, turned_scores(g, s, ds), q, dk);

  const Tensor keys =
      g.tensor(rows_of(s, s.kv_heads), row_strides(s, s.row()), CudnnData::bf16, Place::between);
  g.reshape(k, keys);
  g.multiply(ds, keys, dq_sums);
  g.pointwise({.mode = CudnnPointwise::identity, .x = &dq_sums}, dq);
  backward_ids_ = {q.id, k.id, v.id, out.id, dout.id, statistics.id, sums.id, dq_sums.id, dq.id,
      dk.id, dv.id, scale.id, hidden.id, one.id};
}

i64 CudnnAttention::engines() const {
  return std::min(forward_graph_.engines(), backward_graph_.engines());
}

i64 CudnnAttention::engine_bytes() const {
  return std::max(forward_graph_.workspace_bytes(), backward_graph_.workspace_bytes());
}

std::optional<i64> CudnnAttention::most_told_bytes() const {
  std::optional<i64> most;
  for (const CudnnGraph* graph : {&forward_graph_, &backward_graph_})
    for (const i64 bytes : graph->told_workspaces())
      most = std::max(most.value_or(0), bytes);
  return most;
}

i64 CudnnAttention::workspace_bytes() const {
  return cudnn_sums_bytes(shape_) + engine_bytes();
}

namespace {

/// The heads of q, k and v within a packed row.
struct Parts {
  void* q;
  void* k;
  void* v;
};
Parts parts_of(const void* qkv, const AttentionShape& s) {
  // Inputs are never written through; a variant pack has one kind of pointer.
  auto* start = static_cast<std::byte*>(const_cast<void*>(qkv));
  constexpr i64 value_bytes = 2;
  std::byte* k = start + s.heads * s.head_dim * value_bytes;
  return {start, k, k + s.kv_heads * s.head_dim * value_bytes};
}

void* engine_part(void* workspace, const AttentionShape& s) {
  return static_cast<std::byte*>(workspace) + cudnn_sums_bytes(s);
}

}  // namespace

bool CudnnAttention::forward(
    void* stream, void* out, float* statistics, const void* qkv, void* workspace) {
  const Parts in = parts_of(qkv, shape_);
  const Forward& id = forward_ids_;
  return table_.set_stream(handle_, stream) == cudnn_success &&
      forward_graph_.run(handle_,
          {{id.q, in.q}, {id.k, in.k}, {id.v, in.v}, {id.out, out}, {id.statistics, statistics},
              {id.scale, &scale_}, {id.hidden, &not_seen}},
          engine_part(workspace, shape_));
}

bool CudnnAttention::backward(void* stream, const Device::AttentionGradient& g) {
  const Parts in = parts_of(g.qkv, shape_);
  const Parts to = parts_of(g.dqkv, shape_);
  const Backward& id = backward_ids_;
  auto* dq_sums = static_cast<float*>(g.workspace);
  float* sums = dq_sums + shape_.batch * shape_.heads * shape_.seq_len * shape_.head_dim;
  const auto input = [](const void* data) { return const_cast<void*>(data); };
  return table_.set_stream(handle_, stream) == cudnn_success &&
      backward_graph_.run(handle_,
          {{id.q, in.q}, {id.k, in.k}, {id.v, in.v}, {id.out, input(g.out)},
              {id.dout, input(g.dout)}, {id.statistics, input(g.lse)}, {id.sums, sums},
              {id.dq_sums, dq_sums}, {id.dq, to.q}, {id.dk, to.k}, {id.dv, to.v},
              {id.scale, &scale_}, {id.hidden, &not_seen}, {id.one, &unscaled}},
          engine_part(g.workspace, shape_));
}

}  // namespace shardbench
