// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention_workspace.hpp"
#include "cuda/fused_attention.hpp"
#include "cudnn/cudnn_attention.hpp"
#include "error.hpp"

#include <algorithm>
#include <utility>

namespace shardbench {
namespace {

class CudnnFusedAttention final : public FusedAttention {
 public:
  CudnnFusedAttention(const CudnnLibrary& library, CudnnHandle handle,
                      const AttentionShape& shape)
      : library_(library), attention_(library_.table, {handle, nullptr}, shape) {}
  ~CudnnFusedAttention() override { gpu::release(engine_); }

  std::string refusal() const { return attention_.refusal(); }
  /// False where the GPU has no room for it.
  bool take_engine_memory() {
    engine_ = gpu::allocate(std::max<i64>(1, attention_.engine_bytes()));
    return engine_ != nullptr;
  }

  void forward(gpu::Stream stream, void* out, void* lse, const void* qkv) override {
    if (!attention_.forward(stream.handle, out, static_cast<float*>(lse), qkv, engine_))
      give_up();
  }
  void backward(gpu::Stream stream, const Device::AttentionGradient& g) override {
    if (!attention_.backward(stream.handle, g, engine_)) give_up();
  }
  std::string name() const override { return "cuDNN " + cudnn_version_name(library_.version); }
  i64 engine_bytes() const override { return attention_.engine_bytes(); }

 private:
  [[noreturn]] void give_up() const {
    const std::string why = attention_.refusal();
    fail(ErrorClass::internal, why.empty() ? "cuDNN does not take the stream" : why);
  }

  CudnnLibrary library_;
  CudnnAttention attention_;
  std::byte* engine_ = nullptr;
};

}  // namespace

FusedAttentionChoice make_fused_attention(const AttentionShape& shape) {
  if (!cudnn_has_head_dim(shape.head_dim)) return {nullptr, "cuDNN is for heads of 64 and 128"};
  if (CudnnAttention::backward_bytes(shape) > gpu_attention_workspace_bytes(shape))
    return {nullptr, "the workspace of attention is planned for less"};
  const CudnnLibrary library = load_cudnn();
  if (!library.refusal.empty()) return {nullptr, library.refusal};
  CudnnHandle handle = nullptr;
  const int created = library.table.create(&handle);
  if (created != cudnn_success)
    return {nullptr, std::string("cudnnCreate: ") + library.table.get_error_string(created)};
  auto attention = std::make_unique<CudnnFusedAttention>(library, handle, shape);
  if (!attention->refusal().empty()) return {nullptr, attention->refusal()};
  if (!attention->take_engine_memory()) return {nullptr, "no memory for cuDNN's engines"};
  return {std::move(attention), ""};
}

}  // namespace shardbench
