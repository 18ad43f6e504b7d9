// SPDX-License-Identifier: Apache-2.0
// A device that only counts: the same schedule, the same allocations, no arithmetic and no
// memory. Addresses are numbers that nothing may follow.
#pragma once

#include "device/device.hpp"

#include <functional>
#include <utility>

namespace shardbench {

class MetaDevice : public Device {
 public:
  /// Takes attention's workspace from `real`, if one is given; else the planned size.
  explicit MetaDevice(Dtype dtype, const Device* real = nullptr)
      : precision_(precision_of(dtype)), real_(real) {}

  Precision precision() const override { return precision_; }
  std::byte* allocate(i64 bytes) override;
  void release(std::byte*, i64) override {}
  bool computes() const override { return false; }

  void zero(void*, i64) override {}
  void copy(void*, const void*, i64) override {}
  void upload(void*, const void*, i64) override {}
  void download(void*, const void*, i64) override {}
  void synchronize() override {}
  Mark mark() override { return {}; }
  double seconds_between(const Mark&, const Mark&) override { return 0; }
  /// Is told of each product that is asked for.
  void watch_products(std::function<void(const Gemm&)> watcher) { watcher_ = std::move(watcher); }
  void gemm(const Gemm& gemm) override {
    if (watcher_) watcher_(gemm);
  }
  void raise_amax(float*, const void*, i64) override {}
  void quantize(const Quantization&) override {}
  void transpose_8_bits(void*, const void*, i64, i64) override {}
  void keep_amax(const AmaxHistory&) override {}
  void add(void*, const void*, const void*, i64) override {}
  void accumulate(void*, const void*, i64) override {}
  void rms_norm(void*, const void*, const void*, i64, i64) override {}
  void rms_norm_backward(const RmsNormGradient&, i64, i64) override {}
  void rope(void*, const AttentionShape&, Rotation) override {}
  void rope_at(void*, const AttentionShape&, const Positions&, Rotation) override {}
  void attend_more(const MoreKeys&, const AttentionShape&, const SeenKeys&) override {}
  void attend_more_backward(
      const MoreKeysGradient&, const AttentionShape&, const SeenKeys&) override {}
  void copy_columns(const Columns&) override {}
  void add_columns(const Columns&) override {}
  i64 attention_workspace_bytes(const AttentionShape& shape) const override;
  void attention(void*, void*, const void*, void*, const AttentionShape&) override {}
  void attention_backward(const AttentionGradient&, const AttentionShape&) override {}
  void route(const Route&, const RouteShape&) override {}
  void route_backward(const RouteGradient&, const RouteShape&) override {}
  void count_choices(void*, const std::int32_t*, i64, double, const RouteShape&) override {}
  void dispatch(const Dispatch&, const RouteShape&) override {}
  void gather_rows(const RowGather&) override {}
  void add_placed(void*, const RowPlacement&) override {}
  void placed_backward(void*, void*, const void*, const RowPlacement&) override {}
  void swiglu(void*, const void*, i64, i64) override {}
  void swiglu_backward(void*, const void*, i64, i64) override {}
  void embed(void*, const void*, const std::int32_t*, const EmbeddingShape&) override {}
  void embed_backward(void*, const void*, const std::int32_t*, const EmbeddingShape&) override {}
  void loss_max(void*, const void*, const LossShape&) override {}
  void loss_sums(void*, const void*, const void*, const std::int32_t*, const LossShape&) override {}
  void loss_backward(const LossGradient&, const LossShape&) override {}
  double take_loss() override { return 0; }
  void initialize(void*, const TensorRegion&, u64) override {}
  void add_square_sum(double*, const void*, i64) override {}
  void adamw(void*, void*, const void*, i64, const AdamW&) override {}
  void initialize_optimizer(void*, const void*, i64) override {}
  void read_gradient(double*, const void*, i64) override {}

 private:
  Precision precision_;
  const Device* real_;
  std::function<void(const Gemm&)> watcher_;
  std::uintptr_t next_ = std::uintptr_t{1} << 44;
};

}  // namespace shardbench
