// SPDX-License-Identifier: Apache-2.0
#include "device/meta_device.hpp"

#include "cuda/attention_workspace.hpp"

namespace shardbench {

std::byte* MetaDevice::allocate(i64 bytes) {
  const std::uintptr_t at = next_;
  // Align blocks as GPUs do.
  constexpr std::uintptr_t alignment = 256;
  next_ += (static_cast<std::uintptr_t>(bytes) / alignment + 2) * alignment;
  return reinterpret_cast<std::byte*>(at);  // NOLINT(performance-no-int-to-ptr): never followed
}

i64 MetaDevice::attention_workspace_bytes(const AttentionShape& shape) const {
  if (real_ != nullptr) return real_->attention_workspace_bytes(shape);
  if (precision_.value == Dtype::bf16) return planned_attention_workspace_bytes(shape);
  return attention_score_elements(shape) * dtype_size(precision_.value);
}

}  // namespace shardbench
