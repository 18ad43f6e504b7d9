// SPDX-License-Identifier: Apache-2.0
// The CPU behind the Device seam: one thread, one format for everything (float or double).
// Members are defined by theme in cpu_*.cpp and instantiated there for float and double.
#pragma once

#include "device/device.hpp"

#include <memory>
#include <utility>

namespace shardbench {

template <typename T>
class CpuDevice final : public Device {
 public:
  Precision precision() const override;
  std::byte* allocate(i64 bytes) override;
  void release(std::byte* data, i64 bytes) override;
  bool computes() const override { return true; }

  void zero(void* data, i64 bytes) override;
  void copy(void* to, const void* from, i64 bytes) override;
  void upload(void* to, const void* host, i64 bytes) override { copy(to, host, bytes); }
  void download(void* host, const void* from, i64 bytes) override { copy(host, from, bytes); }
  void synchronize() override {}
  Mark mark() override { return {now(), nullptr}; }
  double seconds_between(const Mark& from, const Mark& to) override {
    return Seconds(to.host - from.host).count();
  }
  void gemm(const Gemm& gemm) override;
  void raise_amax(float* amax, const void* values, i64 count) override;
  void quantize(const Quantization& q) override;
  void transpose_8_bits(void* to, const void* from, i64 rows, i64 columns) override;
  void keep_amax(const AmaxHistory& history) override;
  void add(void* y, const void* a, const void* b, i64 count) override;
  void accumulate(void* y, const void* x, i64 count) override;
  void rms_norm(void* y, const void* x, const void* w, i64 tokens, i64 hidden) override;
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
  void copy_columns(const Columns& columns) override;
  void add_columns(const Columns& columns) override;
  void route(const Route& r, const RouteShape& shape) override;
  void route_backward(const RouteGradient& g, const RouteShape& shape) override;
  void count_choices(void* counts, const std::int32_t* choices, i64 seq_len, double scale,
      const RouteShape& shape) override;
  void dispatch(const Dispatch& d, const RouteShape& shape) override;
  void gather_rows(const RowGather& gathered) override;
  void add_placed(void* y, const RowPlacement& placed) override;
  void placed_backward(
      void* d_rows, void* d_weights, const void* dy, const RowPlacement& placed) override;
  void swiglu(void* y, const void* gate_up, i64 tokens, i64 ffn) override;
  void swiglu_backward(void* gate_up, const void* dy, i64 tokens, i64 ffn) override;
  void embed(
      void* y, const void* table, const std::int32_t* ids, const EmbeddingShape& shape) override;
  void embed_backward(
      void* d_table, const void* dy, const std::int32_t* ids, const EmbeddingShape& shape) override;
  void loss_max(void* maximum, const void* logits, const LossShape& shape) override;
  void loss_sums(void* statistics, const void* logits, const void* maximum,
      const std::int32_t* targets, const LossShape& shape) override;
  void loss_backward(const LossGradient& g, const LossShape& shape) override;
  DropCounts dropped() override { return dropped_; }
  double take_loss() override { return std::exchange(loss_, 0); }
  void initialize(void* weight, const TensorRegion& region, u64 seed) override;
  void add_square_sum(double* sum, const void* gradient, i64 count) override;
  void adamw(
      void* weight, void* state, const void* gradient, i64 count, const AdamW& settings) override;
  void initialize_optimizer(void* state, const void* weight, i64 count) override;
  void read_gradient(double* host, const void* gradient, i64 count) override;

 private:
  void multiply_fp8(const Gemm& gemm);

  double loss_ = 0;
  DropCounts dropped_;
};

/// The CPU in fp32 or fp64; null for a format that it has not.
std::unique_ptr<Device> make_cpu_device(Dtype dtype);
/// "OpenBLAS …" or "plain".
const char* cpu_gemm_library();

}  // namespace shardbench
