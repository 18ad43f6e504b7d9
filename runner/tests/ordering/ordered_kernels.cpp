// SPDX-License-Identifier: Apache-2.0
// Kernels and matrix products as what they read and write.
#include "cuda/attention_workspace.hpp"
#include "cuda/kernels.hpp"
#include "cuda/product_library.hpp"
#include "ordered_gpu.hpp"

namespace shardbench {
namespace {

using ordered::Range;
using ordered::work;

Range values(const Bf16* data, i64 count) {
  return {data, count * i64{sizeof(Bf16)}};
}
Range floats(const float* data, i64 count) {
  return {data, count * i64{sizeof(float)}};
}
Range ids(const std::int32_t* data, i64 count) {
  return {data, count * i64{sizeof(std::int32_t)}};
}
Range matrix(const void* data, i64 rows, i64 columns, i64 stride, Dtype dtype) {
  return {data, ((rows - 1) * stride + columns) * dtype_size(dtype)};
}

i64 tokens_of(const AttentionShape& s) {
  return s.batch * s.seq_len;
}

/// Cost of this number of products of queries with keys.
ordered::Cost attending(const AttentionShape& a, double pairs, double products) {
  return {.flops = 2.0 * products * pairs * static_cast<double>(a.batch * a.heads * a.head_dim)};
}
double causal_pairs(const AttentionShape& a) {
  return 0.5 * static_cast<double>(a.seq_len) * static_cast<double>(a.seq_len);
}
double pairs_of(const SeenKeys& seen) {
  return static_cast<double>(seen.queries) * static_cast<double>(seen.keys);
}
constexpr double products_forward = 2;   // scores, values
constexpr double products_backward = 5;  // scores again, and four gradients

class OrderedProduct final : public PreparedProduct {
 public:
  std::size_t candidates() const override { return 1; }
  void run(gpu::Stream stream, const Gemm& g, std::size_t) override {
    const bool ta = g.transpose_a == Transpose::yes;
    const bool tb = g.transpose_b == Transpose::yes;
    if (g.element_a != Element::value) return run_fp8(stream, g);
    const auto all = [&](Range range, i64 step, Dtype dtype) {
      range.bytes += (g.batch - 1) * step * dtype_size(dtype);
      return range;
    };
    const Dtype output = g.gradient_output ? Dtype::fp32 : Dtype::bf16;
    const Range c = all(matrix(g.c, g.m, g.n, g.ldc, output), g.step_c, output);
    std::vector<Range> reads{
        all(matrix(g.a, ta ? g.k : g.m, ta ? g.m : g.k, g.lda, Dtype::bf16), g.step_a, Dtype::bf16),
        all(matrix(g.b, tb ? g.n : g.k, tb ? g.k : g.n, g.ldb, Dtype::bf16), g.step_b,
            Dtype::bf16)};
    if (g.accumulate == Accumulate::yes) reads.push_back(c);
    work(stream, "product", reads, {c}, cost_of(g));
  }

 private:
  static ordered::Cost cost_of(const Gemm& g) {
    return {.flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) *
            static_cast<double>(g.k) * static_cast<double>(g.batch),
        .in_fp8 = g.element_a != Element::value};
  }
  static void run_fp8(gpu::Stream stream, const Gemm& g) {
    const Range c = matrix(g.c, g.m, g.n, g.ldc, g.gradient_output ? Dtype::fp32 : Dtype::bf16);
    std::vector<Range> reads{
        {g.a, g.m * g.k}, {g.b, g.n * g.k}, floats(g.unit_a, 1), floats(g.unit_b, 1)};
    if (g.accumulate == Accumulate::yes) reads.push_back(c);
    work(stream, "product", reads, {c}, cost_of(g));
  }
};

class OrderedLibrary final : public ProductLibrary {
 public:
  std::unique_ptr<PreparedProduct> prepare(const GemmKey&) override {
    return std::make_unique<OrderedProduct>();
  }
  std::string name() const override { return "ordered"; }
};

}  // namespace

std::unique_ptr<ProductLibrary> make_product_library() {
  return std::make_unique<OrderedLibrary>();
}

namespace kernels {

void raise_amax(gpu::Stream s, float* amax, const Bf16* from, i64 count) {
  work(s, "raise_amax", {values(from, count), floats(amax, 1)}, {floats(amax, 1)});
}

namespace {

/// Adds the ranges that 8-bit output reads and writes beside the values.
void add_left(
    std::vector<Range>& reads, std::vector<Range>& writes, const Device::Quantization& q) {
  const i64 count = q.rows * q.columns;
  if (q.limit != nullptr) {
    reads.push_back(floats(q.limit, 1));
    writes.push_back(floats(q.unit, 1));
  }
  if (q.straight != nullptr) writes.push_back({q.straight, count});
  if (q.transposed != nullptr) writes.push_back({q.transposed, count});
  if (q.seen == nullptr) return;
  reads.push_back(floats(q.seen, 1));
  writes.push_back(floats(q.seen, 1));
}

}  // namespace

void quantize(gpu::Stream s, const Device::Quantization& q) {
  std::vector<Range> reads{{q.values, q.rows * q.columns * i64{sizeof(Bf16)}}};
  std::vector<Range> writes;
  add_left(reads, writes, q);
  work(s, "quantize", reads, writes);
}

void transpose_8_bits(gpu::Stream s, void* to, const void* from, i64 rows, i64 columns) {
  work(s, "transpose_8_bits", {{from, rows * columns}}, {{to, rows * columns}});
}

void keep_amax(gpu::Stream s, const Device::AmaxHistory& h) {
  const Range history = floats(h.history, h.steps * h.tensors);
  const Range seen = floats(h.seen, h.tensors);
  work(s, "keep_amax", {seen, history}, {floats(h.limits, h.tensors), seen, history});
}

void add(gpu::Stream s, Bf16* y, const Bf16* a, const Bf16* b, i64 count) {
  work(s, "add", {values(a, count), values(b, count)}, {values(y, count)});
}

void accumulate(gpu::Stream s, float* y, const float* x, i64 count) {
  work(s, "accumulate", {floats(y, count), floats(x, count)}, {floats(y, count)});
}

namespace {

/// Adds work with its 8-bit output.
void making(gpu::Stream s, const char* name, std::vector<Range> reads, std::vector<Range> writes,
    const Device::Quantization* left) {
  if (left != nullptr) add_left(reads, writes, *left);
  work(s, name, reads, writes);
}

}  // namespace

void rms_norm(
    gpu::Stream s, const Norm& n, i64 tokens, i64 hidden, const Device::Quantization* left) {
  making(s, "rms_norm", {values(n.x, tokens * hidden), values(n.w, hidden)},
      {values(n.y, tokens * hidden)}, left);
}

void add_rms_norm(
    gpu::Stream s, const AddedNorm& n, i64 tokens, i64 hidden, const Device::Quantization* left) {
  const i64 count = tokens * hidden;
  making(s, "add_rms_norm", {values(n.a, count), values(n.b, count), values(n.w, hidden)},
      {values(n.sum, count), values(n.y, count)}, left);
}

void rms_norm_backward(gpu::Stream s, const RmsNormGradient& g, i64 tokens, i64 hidden) {
  const i64 count = tokens * hidden;
  work(s, "rms_norm_backward",
      {values(g.x, count), values(g.w, hidden), values(g.dy, count), values(g.dx, count),
          floats(g.dw, hidden)},
      {values(g.dx, count), floats(g.dw, hidden)});
}

void make_rope_table(gpu::Stream s, float* table, const AttentionShape& shape) {
  work(s, "rope_table", {}, {floats(table, rope_table_floats(shape))});
}

void rope(gpu::Stream s, Bf16* qkv, const float* table, const AttentionShape& shape,
    const Positions& positions, Rotation) {
  const Range range = values(qkv, tokens_of(shape) * shape.row());
  AttentionShape whole = shape;
  whole.seq_len = positions_within(shape, positions);
  work(s, "rope", {range, floats(table, rope_table_floats(whole))}, {range});
}

void attend_more(gpu::Stream s, const MoreKeys& m, const AttentionShape& a, const SeenKeys& seen) {
  const Range out = values(m.out, tokens_of(a) * a.heads * a.head_dim);
  const Range lse = floats(m.lse, tokens_of(a) * a.heads);
  work(s, "attend_more",
      {values(m.qkv, tokens_of(a) * a.row()),
          values(m.keys, tokens_of(a) * 2 * a.kv_heads * a.head_dim), out, lse},
      {out, lse}, attending(a, pairs_of(seen), products_forward));
}

void attend_more_backward(
    gpu::Stream s, const MoreKeysGradient& m, const AttentionShape& a, const SeenKeys& seen) {
  const i64 keys = tokens_of(a) * 2 * a.kv_heads * a.head_dim;
  const i64 attended = tokens_of(a) * a.heads * a.head_dim;
  const Range dqkv = values(m.dqkv, tokens_of(a) * a.row());
  const Range dkeys = values(m.dkeys, keys);
  work(s, "attend_more_backward",
      {values(m.qkv, tokens_of(a) * a.row()), values(m.keys, keys), values(m.dout, attended),
          values(m.out, attended), floats(m.lse, tokens_of(a) * a.heads), dqkv, dkeys},
      {dqkv, dkeys, {m.workspace, attention_workspace_bytes(a)}},
      attending(a, pairs_of(seen), products_backward));
}

void copy_columns(gpu::Stream s, const Device::Columns& c) {
  work(s, "copy_columns", {matrix(c.from, c.rows, c.width, c.from_row, Dtype::bf16)},
      {matrix(c.to, c.rows, c.width, c.to_row, Dtype::bf16)});
}

void add_columns(gpu::Stream s, const Device::Columns& c) {
  const Range to = matrix(c.to, c.rows, c.width, c.to_row, Dtype::bf16);
  work(s, "add_columns", {matrix(c.from, c.rows, c.width, c.from_row, Dtype::bf16), to}, {to});
}

void route(gpu::Stream s, const Device::Route& r, const Device::RouteShape& shape) {
  const i64 choices = shape.tokens * shape.chosen;
  const Range chosen = ids(r.choices, choices);
  const Range rows = {r.probabilities, shape.tokens * shape.experts * i64{sizeof(Bf16)}};
  const Range weights = {r.weights, choices * i64{sizeof(Bf16)}};
  if (r.pinned)
    work(s, "route", {rows, chosen}, {rows, weights});
  else
    work(s, "route", {rows}, {rows, weights, chosen});
}

void route_backward(gpu::Stream s, const RouteGradient& g, const Device::RouteShape& shape) {
  const i64 rows = shape.tokens * shape.experts;
  const i64 choices = shape.tokens * shape.chosen;
  std::vector<Range> reads{values(g.probabilities, rows), values(g.weights, choices),
      values(g.d_weights, choices), ids(g.choices, choices)};
  if (g.balance != nullptr)
    reads.push_back(floats(g.balance, shape.tokens / g.seq_len * shape.experts));
  work(s, "route_backward", reads, {values(g.d_logits, rows)});
}

void count_choices(gpu::Stream s, float* counts, const std::int32_t* choices, i64 seq_len, float,
    const Device::RouteShape& shape) {
  work(s, "count_choices", {ids(choices, shape.tokens * shape.chosen)},
      {floats(counts, shape.tokens / seq_len * shape.experts)});
}

void dispatch(gpu::Stream s, const Device::Dispatch& d, const Device::RouteShape& shape) {
  const i64 choices = shape.tokens * shape.chosen;
  const i64 rows = d.capacity == 0 ? choices : shape.experts * d.capacity;
  work(s, "dispatch", {ids(d.choices, choices)},
      {ids(d.source, rows), ids(d.places, choices),
          floats(static_cast<const float*>(d.counts), shape.experts),
          {d.dropped, d.dropped == nullptr ? 0 : i64{sizeof(double)}}});
}

void gather_rows(gpu::Stream s, const Device::RowGather& g) {
  const i64 row = g.width * i64{sizeof(Bf16)};
  work(s, "gather_rows", {{g.from, g.sources * row}, ids(g.index, g.rows)}, {{g.to, g.rows * row}});
}

void add_placed(gpu::Stream s, Bf16* y, const PlacedRows& p) {
  const Range sums = values(y, p.tokens * p.width);
  std::vector<Range> reads{
      sums, values(p.rows, p.row_count * p.width), ids(p.places, p.tokens * p.chosen)};
  if (p.weights != nullptr) reads.push_back(values(p.weights, p.tokens * p.chosen));
  work(s, "add_placed", reads, {sums});
}

void placed_backward(
    gpu::Stream s, Bf16* d_rows, Bf16* d_weights, const Bf16* dy, const PlacedRows& p) {
  const i64 choices = p.tokens * p.chosen;
  work(s, "placed_backward",
      {values(p.rows, p.row_count * p.width), ids(p.places, choices), values(p.weights, choices),
          values(dy, p.tokens * p.width)},
      {values(d_rows, p.row_count * p.width), values(d_weights, choices)});
}

i64 attention_workspace_bytes(const AttentionShape& shape) {
  return gpu_attention_workspace_bytes(shape);
}

void attention(gpu::Stream s, Bf16* out, float* lse, const Bf16* qkv, void* workspace,
    const AttentionShape& a) {
  work(s, "attention", {values(qkv, tokens_of(a) * a.row())},
      {values(out, tokens_of(a) * a.heads * a.head_dim), floats(lse, tokens_of(a) * a.heads),
          {workspace, attention_workspace_bytes(a)}},
      attending(a, causal_pairs(a), products_forward));
}

void attention_backward(gpu::Stream s, const AttentionGradient& g, const AttentionShape& a) {
  const i64 out = tokens_of(a) * a.heads * a.head_dim;
  work(s, "attention_backward",
      {values(g.dout, out), values(g.qkv, tokens_of(a) * a.row()), values(g.out, out),
          floats(g.lse, tokens_of(a) * a.heads)},
      {values(g.dqkv, tokens_of(a) * a.row()), {g.workspace, attention_workspace_bytes(a)}},
      attending(a, causal_pairs(a), products_backward));
}

void swiglu(gpu::Stream s, Bf16* y, const Bf16* gate_up, i64 tokens, i64 ffn,
    const Device::Quantization* left) {
  making(s, "swiglu", {values(gate_up, 2 * tokens * ffn)}, {values(y, tokens * ffn)}, left);
}

void swiglu_backward(gpu::Stream s, Bf16* gate_up, const Bf16* dy, i64 tokens, i64 ffn,
    const Device::Quantization* left) {
  const Range both = values(gate_up, 2 * tokens * ffn);
  std::vector<Range> writes;
  if (left == nullptr || left->limit == nullptr) writes.push_back(both);
  making(s, "swiglu_backward", {both, values(dy, tokens * ffn)}, writes, left);
}

void embed(gpu::Stream s, Bf16* y, const Bf16* table, const std::int32_t* id,
    const Device::EmbeddingShape& e) {
  work(s, "embed", {values(table, e.rows * e.hidden), ids(id, e.tokens)},
      {values(y, e.tokens * e.hidden)});
}

void embed_backward(gpu::Stream s, float* d_table, const Bf16* dy, const std::int32_t* id,
    const Device::EmbeddingShape& e) {
  const Range table = floats(d_table, e.rows * e.hidden);
  work(s, "embed_backward", {table, values(dy, e.tokens * e.hidden), ids(id, e.tokens)}, {table});
}

void loss_max(gpu::Stream s, float* maximum, const Bf16* logits, const Device::LossShape& l) {
  work(s, "loss_max", {matrix(logits, l.tokens, l.rows, l.stride, Dtype::bf16)},
      {floats(maximum, l.tokens)});
}

void loss_sums(gpu::Stream s, float* statistics, const Bf16* logits, const float* maximum,
    const std::int32_t* targets, const Device::LossShape& l) {
  work(s, "loss_sums",
      {matrix(logits, l.tokens, l.rows, l.stride, Dtype::bf16), floats(maximum, l.tokens),
          ids(targets, l.tokens)},
      {floats(statistics, 2 * l.tokens)});
}

void loss_max_and_sums(gpu::Stream s, float* maximum, float* statistics, const Bf16* logits,
    const std::int32_t* targets, const Device::LossShape& l) {
  work(s, "loss_max_and_sums",
      {matrix(logits, l.tokens, l.rows, l.stride, Dtype::bf16), ids(targets, l.tokens)},
      {floats(maximum, l.tokens), floats(statistics, 2 * l.tokens)});
}

void loss_backward(gpu::Stream s, const LossGradient& g, const Device::LossShape& l) {
  const Range logits = matrix(g.logits, l.tokens, l.rows, l.stride, Dtype::bf16);
  const Range loss{g.loss, sizeof(double)};
  work(s, "loss_backward",
      {logits, floats(g.maximum, l.tokens), floats(g.statistics, 2 * l.tokens),
          ids(g.targets, l.tokens), loss},
      {logits, loss});
}

void initialize(gpu::Stream s, Bf16* weight, const TensorRegion& region, u64) {
  work(s, "initialize", {}, {values(weight, region.rows * region.columns)});
}

void square_sum(gpu::Stream s, double* sum, const float* gradient, i64 count) {
  const Range total{sum, sizeof(double)};
  work(s, "square_sum", {floats(gradient, count), total}, {total});
}

namespace {

/// Adds the norm that clips the gradients, if it is in the GPU's memory.
template <typename Settings>
void add_norm(std::vector<Range>& reads, const Settings& settings) {
  if constexpr (requires { settings.square_sum; })
    if (settings.square_sum != nullptr) reads.push_back({settings.square_sum, sizeof(double)});
}

}  // namespace

void adamw(gpu::Stream s, Bf16* weight, float* state, const float* gradient, i64 count,
    const AdamW& settings) {
  constexpr i64 copies = 3;
  std::vector<Range> reads{floats(state, copies * count), floats(gradient, count)};
  add_norm(reads, settings);
  work(s, "adamw", reads, {floats(state, copies * count), values(weight, count)});
}

void initialize_optimizer(gpu::Stream s, float* state, const Bf16* weight, i64 count) {
  constexpr i64 copies = 3;
  work(s, "initialize_optimizer", {values(weight, count)}, {floats(state, copies * count)});
}

}  // namespace kernels
}  // namespace shardbench
