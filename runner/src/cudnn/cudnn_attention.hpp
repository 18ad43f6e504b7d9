// SPDX-License-Identifier: Apache-2.0
// Causal attention of packed rows [q | k | v] as graphs of cuDNN: one for forward, which keeps
// the softmax statistics, and one for backward. Planned once, for one shape.
#pragma once

#include "cudnn/cudnn_graph.hpp"
#include "device.hpp"

#include <memory>
#include <string>

namespace shardbench {

/// Sizes that cuDNN's fused engines have; the others are for the kernels of our own.
constexpr bool cudnn_has_head_dim(i64 head_dim) {
  return head_dim == 64 || head_dim == 128;
}

class CudnnAttention {
 public:
  CudnnAttention(const CudnnTable& table, const CudnnTarget& target,
                 const AttentionShape& shape);

  bool good() const { return refusal().empty(); }
  /// Why cuDNN does not do it; empty when it does.
  std::string refusal() const;

  /// Of the arena's workspace: the sums of backward that lie between its operations.
  static i64 backward_bytes(const AttentionShape& shape);
  /// How many engines cuDNN has for the direction that has the fewest.
  i64 engines() const;
  /// Beside it, for cuDNN's engines.
  i64 engine_bytes() const;

  /// out[tokens, heads·d]; statistics[batch, heads, seq_len].
  bool forward(void* stream, void* out, float* statistics, const void* qkv, void* engine);
  bool backward(void* stream, const Device::AttentionGradient& g, void* engine);
  const AttentionShape& shape() const { return shape_; }

 private:
  struct Forward {
    i64 q, k, v, out, statistics, scale, hidden;
  };
  struct Backward {
    i64 q, k, v, out, dout, statistics, sums, dq_sums, dq, dk, dv, scale, hidden, one;
  };
  void build_forward();
  void build_backward();
  CudnnGraph::Tensor masked_scores(CudnnGraph& graph, const CudnnGraph::Tensor& scores,
                                   const CudnnGraph::Tensor& hidden) const;

  const CudnnTable& table_;
  CudnnHandle handle_;
  AttentionShape shape_;
  float scale_;
  CudnnGraph forward_graph_;
  CudnnGraph backward_graph_;
  Forward forward_ids_{};
  Backward backward_ids_{};
};

}  // namespace shardbench
