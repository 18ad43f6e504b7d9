// SPDX-License-Identifier: Apache-2.0
// A GPU behind the Device seam: bf16 values, fp32 gradients and optimizer state. All work goes
// to one stream; the host runs ahead of it and waits only where it needs a number.
#pragma once

#include "cuda/fused_attention.hpp"
#include "cuda/gpu.hpp"
#include "cuda/kernels.hpp"
#include "cuda/matrix_products.hpp"
#include "device/device.hpp"

#include <functional>
#include <string>
#include <vector>

namespace shardbench {

class CudaDevice final : public Device {
 public:
  /// Call gpu::open() first, which tells the facts.
  explicit CudaDevice(const gpu::Facts& facts);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  gpu::Stream stream() const { return stream_; }
  const MatrixProducts& products() const { return products_; }
  /// Attention of that shape is done by a library's engines from now on, where it has some.
  void choose_attention(const AttentionShape& shape);
  /// A JSON object: `by` a library or "mma", or "plain" if heads have no tiles; `why_not`
  /// the library; `engine_bytes` of its workspace are the library's.
  std::string attention_json() const;
  /// Called again and again while the host waits for the GPU: errors of peers and of the
  /// network have to be heard then, too. Pauses by itself.
  void while_waiting(std::function<void()> pause) { pause_ = std::move(pause); }

  Precision precision() const override { return precision_of(Dtype::bf16); }
  std::byte* allocate(i64 bytes) override { return gpu::allocate(bytes); }
  void release(std::byte* data, i64) override { gpu::release(data); }
  bool computes() const override { return true; }

  void zero(void* data, i64 bytes) override { gpu::zero(stream_, data, bytes); }
  void copy(void* to, const void* from, i64 bytes) override { gpu::copy(stream_, to, from, bytes); }
  void upload(void* to, const void* host, i64 bytes) override;
  void download(void* host, const void* from, i64 bytes) override;
  void synchronize() override;
  Mark mark() override;
  double seconds_between(const Mark& from, const Mark& to) override;

  void settle_products(const std::vector<GemmKey>& keys) override {
    products_.settle(stream_, keys, pause_);
  }
  i64 cache_bytes() const override { return cache_bytes_; }
  void gemm(const Gemm& gemm) override { products_.multiply(stream_, gemm); }
  void raise_amax(float* amax, const void* values, i64 count) override;
  void quantize(const Quantization& q) override { kernels::quantize(stream_, q); }
  void transpose_8_bits(void* to, const void* from, i64 rows, i64 columns) override {
    kernels::transpose_8_bits(stream_, to, from, rows, columns);
  }
  void keep_amax(const AmaxHistory& history) override { kernels::keep_amax(stream_, history); }
  void add(void* y, const void* a, const void* b, i64 count) override;
  void accumulate(void* y, const void* x, i64 count) override;
  void rms_norm(void* y, const void* x, const void* w, i64 tokens, i64 hidden) override;
  void add_rms_norm(const AddedNorm& n, i64 tokens, i64 hidden) override;
  void rms_norm_to_8_bits(void* y, const void* x, const void* w, i64 tokens, i64 hidden,
      const Quantization& left) override;
  void add_rms_norm_to_8_bits(
      const AddedNorm& n, i64 tokens, i64 hidden, const Quantization& left) override;
  void rms_norm_backward(const RmsNormGradient& g, i64 tokens, i64 hidden) override;
  void rope(void* qkv, const AttentionShape& shape, Rotation rotation) override;
  void rope_at(void* qkv, const AttentionShape& shape, const Positions& positions,
      Rotation rotation) override;
  i64 attention_workspace_bytes(const AttentionShape& shape) const override;
  void attention(
      void* out, void* lse, const void* qkv, void* workspace, const AttentionShape& shape) override;
  void attention_backward(const AttentionGradient& g, const AttentionShape& shape) override;
  void attend_more(const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen) override;
  void attend_more_backward(
      const MoreKeysGradient& m, const AttentionShape& shape, const SeenKeys& seen) override;
  void copy_columns(const Columns& columns) override { kernels::copy_columns(stream_, columns); }
  void add_columns(const Columns& columns) override { kernels::add_columns(stream_, columns); }
  void route(const Route& r, const RouteShape& shape) override {
    kernels::route(stream_, r, shape);
  }
  void route_backward(const RouteGradient& g, const RouteShape& shape) override;
  void count_choices(void* counts, const std::int32_t* choices, i64 seq_len, double scale,
      const RouteShape& shape) override;
  void dispatch(const Dispatch& d, const RouteShape& shape) override;
  DropCounts dropped() override;
  void gather_rows(const RowGather& g) override { kernels::gather_rows(stream_, g); }
  void add_placed(void* y, const RowPlacement& placed) override;
  void placed_backward(
      void* d_rows, void* d_weights, const void* dy, const RowPlacement& placed) override;
  void swiglu(void* y, const void* gate_up, i64 tokens, i64 ffn) override;
  void swiglu_backward(void* gate_up, const void* dy, i64 tokens, i64 ffn) override;
  void swiglu_to_8_bits(
      void* y, const void* gate_up, i64 tokens, i64 ffn, const Quantization& left) override;
  void swiglu_backward_to_8_bits(
      void* gate_up, const void* dy, i64 tokens, i64 ffn, const Quantization& left) override;
  void embed(
      void* y, const void* table, const std::int32_t* ids, const EmbeddingShape& shape) override;
  void embed_backward(
      void* d_table, const void* dy, const std::int32_t* ids, const EmbeddingShape& shape) override;
  void loss_max(void* maximum, const void* logits, const LossShape& shape) override;
  void loss_sums(void* statistics, const void* logits, const void* maximum,
      const std::int32_t* targets, const LossShape& shape) override;
  void loss_max_and_sums(void* maximum, void* statistics, const void* logits,
      const std::int32_t* targets, const LossShape& shape) override;
  void loss_backward(const LossGradient& g, const LossShape& shape) override;
  double take_loss() override;
  void initialize(void* weight, const TensorRegion& region, u64 seed) override;
  void add_square_sum(double* sum, const void* gradient, i64 count) override;
  void adamw(
      void* weight, void* state, const void* gradient, i64 count, const AdamW& settings) override;
  void initialize_optimizer(void* state, const void* weight, i64 count) override;
  void read_gradient(double* host, const void* gradient, i64 count) override;

 private:
  gpu::Stream stream_;
  i64 cache_bytes_;
  MatrixProducts products_;
  AttentionShape planned_;  // shape that fused_ was planned for
  FusedAttentionChoice fused_{nullptr, "not chosen yet"};
  std::byte* sums_;  // sums over a train step, in the GPU's memory
  double* loss_;
  double* dropped_;
  double dispatched_ = 0;
  /// Angles of so many positions; made when a shape is chosen, or first asked for.
  const float* rope_table(i64 positions, i64 head_dim);
  std::byte* angles_ = nullptr;
  i64 angles_length_ = 0;
  i64 angles_head_dim_ = 0;
  gpu::Event done_;
  std::vector<gpu::Event> free_events_;
  std::function<void()> pause_;
};

}  // namespace shardbench
