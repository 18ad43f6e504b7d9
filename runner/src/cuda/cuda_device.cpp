// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "cuda/attention_workspace.hpp"
#include "cuda/kernels.hpp"

#include <algorithm>
#include <utility>

namespace shardbench {
namespace {

constexpr i64 sums_bytes = i64{2 * sizeof(double)};
// Pause between two looks at the GPU: short beside a train step, and no busy waiting.
constexpr int pause_us = 50;

Bf16* values(void* data) {
  return static_cast<Bf16*>(data);
}
const Bf16* values(const void* data) {
  return static_cast<const Bf16*>(data);
}
float* floats(void* data) {
  return static_cast<float*>(data);
}
const float* floats(const void* data) {
  return static_cast<const float*>(data);
}

kernels::PlacedRows rows_of(const Device::RowPlacement& p) {
  return {values(p.rows), p.places, values(p.weights), p.tokens, p.chosen, p.row_count, p.width};
}

kernels::AddedNorm added_norm(const Device::AddedNorm& n) {
  return {values(n.sum), values(n.y), values(n.a), values(n.b), values(n.w)};
}

bool same(const AttentionShape& a, const AttentionShape& b) {
  return a.batch == b.batch && a.seq_len == b.seq_len && a.heads == b.heads &&
      a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.more_keys == b.more_keys;
}

}  // namespace

CudaDevice::CudaDevice(const gpu::Facts& facts)
    : stream_(gpu::make_stream(gpu::Priority::normal)),
      cache_bytes_(facts.l2_bytes),
      products_(make_product_library()),
      sums_(gpu::allocate(sums_bytes)),
      loss_(reinterpret_cast<double*>(sums_)),
      dropped_(loss_ + 1),
      done_(gpu::make_event(gpu::Timing::off)),
      pause_([] { sleep_us(pause_us); }) {
  if (sums_ == nullptr) fail(ErrorClass::oom, "out of memory: the GPU has no free memory");
  zero(sums_, sums_bytes);
}

CudaDevice::~CudaDevice() {
  for (const gpu::Event event : free_events_)
    gpu::release_event(event);
  gpu::release_event(done_);
  gpu::release(angles_);
  gpu::release(sums_);
  gpu::release_stream(stream_);
}

void CudaDevice::upload(void* to, const void* host, i64 bytes) {
  gpu::upload(stream_, to, host, bytes);
}

void CudaDevice::download(void* host, const void* from, i64 bytes) {
  // Wait here first: for ordinary memory the driver itself would wait for the stream, and this rank
  // would miss messages of peers.
  synchronize();
  gpu::download(stream_, host, from, bytes);
  synchronize();
}

void CudaDevice::synchronize() {
  gpu::record(done_, stream_);
  while (!gpu::reached(done_))
    pause_();
}

Mark CudaDevice::mark() {
  gpu::Event event;
  if (free_events_.empty()) {
    event = gpu::make_event(gpu::Timing::on);
  } else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  gpu::record(event, stream_);
  return {{}, event.handle};
}

double CudaDevice::seconds_between(const Mark& from, const Mark& to) {
  const gpu::Event first{from.event};
  const gpu::Event last{to.event};
  const double seconds = gpu::seconds_between(first, last);
  free_events_.push_back(first);
  free_events_.push_back(last);
  return seconds;
}

void CudaDevice::raise_amax(float* amax, const void* data, i64 count) {
  kernels::raise_amax(stream_, amax, values(data), count);
}

void CudaDevice::add(void* y, const void* a, const void* b, i64 count) {
  kernels::add(stream_, values(y), values(a), values(b), count);
}

void CudaDevice::accumulate(void* y, const void* x, i64 count) {
  kernels::accumulate(stream_, floats(y), floats(x), count);
}

void CudaDevice::rms_norm(void* y, const void* x, const void* w, i64 tokens, i64 hidden) {
  kernels::rms_norm(stream_, {values(y), values(x), values(w)}, tokens, hidden);
}

void CudaDevice::rms_norm_to_8_bits(
    void* y, const void* x, const void* w, i64 tokens, i64 hidden, const Quantization& left) {
  kernels::rms_norm(stream_, {values(y), values(x), values(w)}, tokens, hidden, &left);
}

void CudaDevice::add_rms_norm(const AddedNorm& n, i64 tokens, i64 hidden) {
  kernels::add_rms_norm(stream_, added_norm(n), tokens, hidden);
}

void CudaDevice::add_rms_norm_to_8_bits(
    const AddedNorm& n, i64 tokens, i64 hidden, const Quantization& left) {
  kernels::add_rms_norm(stream_, added_norm(n), tokens, hidden, &left);
}

void CudaDevice::rms_norm_backward(const RmsNormGradient& g, i64 tokens, i64 hidden) {
  kernels::rms_norm_backward(stream_,
      {values(g.dx), floats(g.dw), values(g.x), values(g.w), values(g.dy)}, tokens, hidden);
}

void CudaDevice::rope(void* qkv, const AttentionShape& shape, Rotation rotation) {
  rope_at(qkv, shape, {0, shape.seq_len / 2}, rotation);
}

void CudaDevice::rope_at(
    void* qkv, const AttentionShape& shape, const Positions& positions, Rotation rotation) {
  const float* table = rope_table(kernels::positions_within(shape, positions), shape.head_dim);
  kernels::rope(stream_, values(qkv), table, shape, positions, rotation);
}

const float* CudaDevice::rope_table(i64 positions, i64 head_dim) {
  const bool has = angles_length_ >= positions && angles_head_dim_ == head_dim;
  const AttentionShape shape{.seq_len = positions, .head_dim = head_dim};
  if (!has) {
    if (angles_ != nullptr) synchronize();
    gpu::release(angles_);
    angles_ = gpu::allocate(kernels::rope_table_floats(shape) * i64{sizeof(float)});
    if (angles_ == nullptr) fail(ErrorClass::oom, "out of memory: no room for RoPE's angles");
    angles_length_ = shape.seq_len;
    angles_head_dim_ = shape.head_dim;
    kernels::make_rope_table(stream_, reinterpret_cast<float*>(angles_), shape);
  }
  return reinterpret_cast<const float*>(angles_);
}

void CudaDevice::choose_attention(const AttentionShape& shape) {
  planned_ = shape;
  fused_ = shape.more_keys ? FusedAttentionChoice{nullptr, "keys of other ranks are added"}
                           : make_fused_attention(shape);
  (void)rope_table(shape.seq_len, shape.head_dim);
}

std::string CudaDevice::attention_json() const {
  if (fused_.attention)
    return JsonObject{}
        .text("by", fused_.attention->name())
        .integer("engine_bytes", fused_.attention->engine_bytes())
        .str();
  return JsonObject{}
      .text("by", has_tiled_attention(planned_.head_dim) ? "mma" : "plain")
      .text("why_not", fused_.why_not)
      .str();
}

i64 CudaDevice::attention_workspace_bytes(const AttentionShape& shape) const {
  if (fused_.attention && same(shape, planned_)) return fused_.attention->workspace_bytes();
  return kernels::attention_workspace_bytes(shape);
}

void CudaDevice::attention(
    void* out, void* lse, const void* qkv, void* workspace, const AttentionShape& shape) {
  if (fused_.attention && same(shape, planned_))
    return fused_.attention->forward(stream_, out, lse, qkv, workspace);
  kernels::attention(stream_, values(out), floats(lse), values(qkv), workspace, shape);
}

void CudaDevice::attention_backward(const AttentionGradient& g, const AttentionShape& shape) {
  if (fused_.attention && same(shape, planned_)) return fused_.attention->backward(stream_, g);
  kernels::attention_backward(stream_,
      {values(g.dqkv), values(g.dout), values(g.qkv), values(g.out), floats(g.lse), g.workspace},
      shape);
}

void CudaDevice::attend_more(const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen) {
  kernels::attend_more(
      stream_, {values(m.out), floats(m.lse), values(m.qkv), values(m.keys)}, shape, seen);
}

void CudaDevice::attend_more_backward(
    const MoreKeysGradient& m, const AttentionShape& shape, const SeenKeys& seen) {
  kernels::attend_more_backward(stream_,
      {values(m.dqkv), values(m.dkeys), values(m.dout), values(m.qkv), values(m.keys),
          values(m.out), floats(m.lse), m.workspace},
      shape, seen);
}

void CudaDevice::route_backward(const RouteGradient& g, const RouteShape& shape) {
  kernels::route_backward(stream_,
      {values(g.d_logits), values(g.d_weights), values(g.probabilities), values(g.weights),
          g.choices, floats(g.balance), g.seq_len},
      shape);
}

void CudaDevice::dispatch(const Dispatch& d, const RouteShape& shape) {
  Dispatch counted = d;
  if (d.capacity > 0) {
    counted.dropped = dropped_;
    dispatched_ += static_cast<double>(shape.tokens * shape.chosen);
  }
  kernels::dispatch(stream_, counted, shape);
}

Device::DropCounts CudaDevice::dropped() {
  DropCounts so_far{0, dispatched_};
  download(&so_far.choices, dropped_, sizeof so_far.choices);
  return so_far;
}

void CudaDevice::count_choices(
    void* counts, const std::int32_t* choices, i64 seq_len, double scale, const RouteShape& shape) {
  kernels::count_choices(
      stream_, floats(counts), choices, seq_len, static_cast<float>(scale), shape);
}

void CudaDevice::add_placed(void* y, const RowPlacement& placed) {
  kernels::add_placed(stream_, values(y), rows_of(placed));
}

void CudaDevice::placed_backward(
    void* d_rows, void* d_weights, const void* dy, const RowPlacement& placed) {
  kernels::placed_backward(stream_, values(d_rows), values(d_weights), values(dy), rows_of(placed));
}

void CudaDevice::swiglu(void* y, const void* gate_up, i64 tokens, i64 ffn) {
  kernels::swiglu(stream_, values(y), values(gate_up), tokens, ffn);
}

void CudaDevice::swiglu_backward(void* gate_up, const void* dy, i64 tokens, i64 ffn) {
  kernels::swiglu_backward(stream_, values(gate_up), values(dy), tokens, ffn);
}

void CudaDevice::swiglu_to_8_bits(
    void* y, const void* gate_up, i64 tokens, i64 ffn, const Quantization& left) {
  kernels::swiglu(stream_, values(y), values(gate_up), tokens, ffn, &left);
}

void CudaDevice::swiglu_backward_to_8_bits(
    void* gate_up, const void* dy, i64 tokens, i64 ffn, const Quantization& left) {
  kernels::swiglu_backward(stream_, values(gate_up), values(dy), tokens, ffn, &left);
}

void CudaDevice::embed(
    void* y, const void* table, const std::int32_t* ids, const EmbeddingShape& shape) {
  kernels::embed(stream_, values(y), values(table), ids, shape);
}

void CudaDevice::embed_backward(
    void* d_table, const void* dy, const std::int32_t* ids, const EmbeddingShape& shape) {
  kernels::embed_backward(stream_, floats(d_table), values(dy), ids, shape);
}

void CudaDevice::loss_max(void* maximum, const void* logits, const LossShape& shape) {
  kernels::loss_max(stream_, floats(maximum), values(logits), shape);
}

void CudaDevice::loss_sums(void* statistics, const void* logits, const void* maximum,
    const std::int32_t* targets, const LossShape& shape) {
  kernels::loss_sums(stream_, floats(statistics), values(logits), floats(maximum), targets, shape);
}

void CudaDevice::loss_max_and_sums(void* maximum, void* statistics, const void* logits,
    const std::int32_t* targets, const LossShape& shape) {
  kernels::loss_max_and_sums(
      stream_, floats(maximum), floats(statistics), values(logits), targets, shape);
}

void CudaDevice::loss_backward(const LossGradient& g, const LossShape& shape) {
  kernels::loss_backward(stream_,
      {values(g.logits), floats(g.maximum), floats(g.statistics), g.targets,
          static_cast<float>(g.scale), loss_},
      shape);
}

/// Reads the sum and starts it anew.
double CudaDevice::take_loss() {
  double value = 0;
  download(&value, loss_, sizeof value);
  zero(loss_, sizeof value);
  return value;
}

void CudaDevice::initialize(void* weight, const TensorRegion& region, u64 seed) {
  kernels::initialize(stream_, values(weight), region, seed);
}

void CudaDevice::add_square_sum(double* sum, const void* gradient, i64 count) {
  kernels::square_sum(stream_, sum, floats(gradient), count);
}

void CudaDevice::adamw(
    void* weight, void* state, const void* gradient, i64 count, const AdamW& settings) {
  kernels::adamw(stream_, values(weight), floats(state), floats(gradient), count, settings);
}

void CudaDevice::initialize_optimizer(void* state, const void* weight, i64 count) {
  kernels::initialize_optimizer(stream_, floats(state), values(weight), count);
}

void CudaDevice::read_gradient(double* host, const void* gradient, i64 count) {
  std::vector<float> read(static_cast<std::size_t>(count));
  download(read.data(), gradient, count * i64{sizeof(float)});
  std::copy(read.begin(), read.end(), host);
}

}  // namespace shardbench
