// SPDX-License-Identifier: Apache-2.0
// Attention by a library's fused engines, for one shape. A link-time seam as gpu.hpp:
// cudnn_fused_attention.cpp, or none where the GPU is emulated.
#pragma once

#include "cuda/gpu.hpp"
#include "device/device.hpp"

#include <memory>
#include <string>

namespace shardbench {

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  FusedAttention() = default;
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;

  /// Operands as Device::attention has them; the order of lse is the library's own. Both
  /// directions have workspace_bytes() of workspace.
  virtual void forward(
      gpu::Stream stream, void* out, void* lse, const void* qkv, void* workspace) = 0;
  virtual void backward(gpu::Stream stream, const Device::AttentionGradient& g) = 0;
  /// "cuDNN 9.19.0": for the start record.
  virtual std::string name() const = 0;
  virtual i64 workspace_bytes() const = 0;
  /// Part of the workspace that the library's engines ask for.
  virtual i64 engine_bytes() const = 0;
};

struct FusedAttentionChoice {
  std::unique_ptr<FusedAttention> attention;  // null: the kernels of our own do it
  std::string why_not;
};

FusedAttentionChoice make_fused_attention(const AttentionShape& shape);

}  // namespace shardbench
