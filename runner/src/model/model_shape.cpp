// SPDX-License-Identifier: Apache-2.0
// Counts that depend on the shape alone, and the table of names.
#include "model/model_shape.hpp"

namespace shardbench {

namespace {

/// Parameters of a layer with `experts` of its experts.
i64 layer_with(const ModelShape& shape, i64 layer, i64 experts) {
  const i64 attention = 2 * shape.hidden * shape.heads * shape.head_dim() +
      2 * shape.hidden * shape.kv_heads * shape.head_dim();
  const i64 dense = 3 * shape.hidden * shape.dense_width(layer);
  const i64 sparse = shape.has_experts(layer)
      ? shape.hidden * (3 * shape.expert_ffn * experts + shape.experts)
      : 0;
  return attention + dense + sparse + 2 * shape.hidden;
}

i64 model_with(const ModelShape& shape, i64 experts) {
  i64 count = shape.hidden + (shape.tied ? 1 : 2) * shape.vocab * shape.hidden;
  for (i64 layer = 0; layer < shape.layers; ++layer)
    count += layer_with(shape, layer, experts);
  return count;
}

}  // namespace

i64 layer_parameters(const ModelShape& shape, i64 layer) {
  return layer_with(shape, layer, shape.experts);
}

i64 parameter_count(const ModelShape& shape) {
  return model_with(shape, shape.experts);
}

double flops_per_token_megatron_causal(const ModelShape& shape) {
  const i64 norms = (2 * shape.layers + 1) * shape.hidden;
  const i64 embedding = shape.tied ? 0 : shape.vocab * shape.hidden;
  const i64 gemm_parameters = model_with(shape, shape.experts_per_token) - norms - embedding;
  return 6.0 * static_cast<double>(gemm_parameters) +
      6.0 * static_cast<double>(shape.layers * shape.heads * shape.head_dim() * shape.seq_len);
}

double flops_per_token_palm(const ModelShape& shape) {
  return 6.0 * static_cast<double>(model_with(shape, shape.experts_per_token)) +
      12.0 * static_cast<double>(shape.layers * shape.heads * shape.head_dim() * shape.seq_len);
}

namespace {

/// Presets of sweeps say no length of sequences: sweeps do. Toys for a CPU have short ones.
i64 usual_seq_len(std::string_view name) {
  if (name == "tiny") return 64;
  if (name == "mini" || name == "small" || name == "base") return 128;
  return 4096;
}

}  // namespace

const std::vector<NamedShape>& named_shapes() {
  static const std::vector<NamedShape> shapes = [] {
    std::vector<NamedShape> named{
#include "model/model_table.inc"
    };
    for (NamedShape& entry : named)
      entry.shape.seq_len = usual_seq_len(entry.name);
    return named;
  }();
  return shapes;
}

std::optional<ModelShape> find_shape(std::string_view name) {
  for (const NamedShape& entry : named_shapes())
    if (entry.name == name) return entry.shape;
  return std::nullopt;
}

}  // namespace shardbench
