// SPDX-License-Identifier: Apache-2.0
// The shape of a Llama-like model, its parameter count and its FLOPs; named shapes.
#pragma once

#include "device/dtype.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace shardbench {

/// All extents in elements.
struct ModelShape {
  i64 layers = 0;
  i64 hidden = 0;
  i64 ffn = 0;
  i64 heads = 0;
  i64 kv_heads = 0;
  i64 vocab = 0;
  i64 seq_len = 0;
  bool tied = false;    // embedding and head are one matrix
  i64 head_values = 0;  // values of one head; 0: hidden / heads
  i64 experts = 0;      // experts of each layer's mixture; 0: all layers are dense
  i64 experts_per_token = 0;
  i64 expert_ffn = 0;      // width of one expert's SwiGLU
  i64 shared_experts = 0;  // experts that every token goes through; of the same width
  i64 dense_layers = 0;    // the first ones, which have no experts

  i64 head_dim() const { return head_values > 0 ? head_values : hidden / heads; }
  bool has_experts(i64 layer) const { return experts > 0 && layer >= dense_layers; }
  /// Width that every token of a layer goes through: several shared experts count as one.
  i64 dense_width(i64 layer) const {
    return has_experts(layer) ? shared_experts * expert_ffn : ffn;
  }
  bool operator==(const ModelShape&) const = default;
};

/// Parameters of one layer: h·a·d·2 + 2·h·g·d + 3·h·f + 2h (d = head_dim). With experts, of
/// width e: 3·h·e·(experts + shared) + h·experts in place of 3·h·f.
i64 layer_parameters(const ModelShape& shape, i64 layer = 0);
/// Sum of layer_parameters + 2·V·h + h (tied: V·h + h), independent of the layout: neither
/// the padding of the vocabulary nor a tied matrix's copy counts.
i64 parameter_count(const ModelShape& shape);

/// FLOPs per token, forward and backward, by the named definition (README, "FLOPs").
/// megatron_causal: 6·(GEMM parameters with the head) + 6·L·a·d·s. Of the experts those that a
/// token goes through count.
double flops_per_token_megatron_causal(const ModelShape& shape);
/// palm: 6·N + 12·L·a·d·s, of the same experts.
double flops_per_token_palm(const ModelShape& shape);

struct NamedShape {
  std::string_view name;
  ModelShape shape;
};

/// The presets of sweeps/models, each with the usual length of its sequences.
const std::vector<NamedShape>& named_shapes();
std::optional<ModelShape> find_shape(std::string_view name);

}  // namespace shardbench
