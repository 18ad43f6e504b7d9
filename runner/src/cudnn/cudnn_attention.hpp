// SPDX-License-Identifier: Apache-2.0
// Causal attention of packed rows [q | k | v] as graphs of cuDNN: one for forward, which keeps
// the softmax statistics, and one for backward. Planned once, for one shape.
#pragma once

#include "cudnn/cudnn_graph.hpp"
#include "device/device.hpp"

#include <memory>
#include <optional>
#include <string>

namespace shardbench {

class CudnnAttention {
 public:
  CudnnAttention(const CudnnTable& table, const CudnnTarget& target, const AttentionShape& shape);

  bool good() const { return refusal().empty(); }
  /// Why cuDNN does not do it; empty when it does.
  std::string refusal() const;

  /// How many engines cuDNN has for the direction that has the fewest.
  i64 engines() const;
  /// Workspace of the built engines, in the direction that needs more.
  i64 engine_bytes() const;
  /// The most that any engine, built or not, says to need; nothing if cuDNN does not tell.
  std::optional<i64> most_told_bytes() const;
  /// Workspace of either direction: sums between backward's operations, then the engine's.
  i64 workspace_bytes() const;

  /// out[tokens, heads·d]; statistics[batch, heads, seq_len].
  bool forward(void* stream, void* out, float* statistics, const void* qkv, void* workspace);
  bool backward(void* stream, const Device::AttentionGradient& g);
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
  CudnnGraph::Tensor masked_scores(
      CudnnGraph& graph, const CudnnGraph::Tensor& scores, const CudnnGraph::Tensor& hidden) const;

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
