// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "cuda/attention_workspace.hpp"
#include "cuda/fused_attention.hpp"
#include "cudnn/cudnn_attention.hpp"

#include <utility>

namespace shardbench {
namespace {

/// Destroyed with its owner, also if cuDNN refuses.
class Handle {
 public:
  explicit Handle(const CudnnTable& table) : table_(table), status_(table.create(&handle_)) {}
  ~Handle() {
    if (status_ == cudnn_success) (void)table_.destroy(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int status() const { return status_; }
  CudnnHandle get() const { return handle_; }

 private:
  CudnnTable table_;
  CudnnHandle handle_ = nullptr;
  int status_;
};

class CudnnFusedAttention final : public FusedAttention {
 public:
  CudnnFusedAttention(
      const CudnnLibrary& library, std::unique_ptr<Handle> handle, const AttentionShape& shape)
      : library_(library),
        handle_(std::move(handle)),
        attention_(library_.table, {handle_->get(), nullptr}, shape) {}

  std::string refusal() const { return attention_.refusal(); }

  void forward(
      gpu::Stream stream, void* out, void* lse, const void* qkv, void* workspace) override {
    if (!attention_.forward(stream.handle, out, static_cast<float*>(lse), qkv, workspace))
      give_up();
  }
  void backward(gpu::Stream stream, const Device::AttentionGradient& g) override {
    if (!attention_.backward(stream.handle, g)) give_up();
  }
  std::string name() const override { return "cuDNN " + cudnn_version_name(library_.version); }
  i64 workspace_bytes() const override { return attention_.workspace_bytes(); }
  i64 engine_bytes() const override { return attention_.engine_bytes(); }

 private:
  [[noreturn]] void give_up() const {
    const std::string why = attention_.refusal();
    fail(ErrorClass::internal, why.empty() ? "cuDNN does not take the stream" : why);
  }

  CudnnLibrary library_;
  std::unique_ptr<Handle> handle_;
  CudnnAttention attention_;
};

}  // namespace

FusedAttentionChoice make_fused_attention(const AttentionShape& shape) {
  if (!cudnn_has_head_dim(shape.head_dim)) return {nullptr, "cuDNN is for heads of 64 and 128"};
  const CudnnLibrary library = load_cudnn();
  if (!library.refusal.empty()) return {nullptr, library.refusal};
  auto handle = std::make_unique<Handle>(library.table);
  if (handle->status() != cudnn_success)
    return {
        nullptr, std::string("cudnnCreate: ") + library.table.get_error_string(handle->status())};
  auto attention = std::make_unique<CudnnFusedAttention>(library, std::move(handle), shape);
  if (!attention->refusal().empty()) return {nullptr, attention->refusal()};
  return {std::move(attention), ""};
}

}  // namespace shardbench
