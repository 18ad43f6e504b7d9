// SPDX-License-Identifier: Apache-2.0
// Counts that depend on the shape alone, and the table of names.
#include "model_shape.hpp"

namespace shardbench {

i64 layer_parameters(const ModelShape& shape) {
  const i64 attention = 2 * shape.hidden * shape.heads * shape.head_dim() +
                        2 * shape.hidden * shape.kv_heads * shape.head_dim();
  return attention + 3 * shape.hidden * shape.ffn + 2 * shape.hidden;
}

i64 parameter_count(const ModelShape& shape) {
  const i64 tables = shape.tied ? 1 : 2;
  return shape.layers * layer_parameters(shape) + tables * shape.vocab * shape.hidden +
         shape.hidden;
}

double flops_per_token_megatron_causal(const ModelShape& shape) {
  const i64 gemm_parameters =
      shape.layers * (layer_parameters(shape) - 2 * shape.hidden) + shape.vocab * shape.hidden;
  return 6.0 * static_cast<double>(gemm_parameters) +
         6.0 * static_cast<double>(shape.layers * shape.hidden * shape.seq_len);
}

double flops_per_token_palm(const ModelShape& shape) {
  return 6.0 * static_cast<double>(parameter_count(shape)) +
         12.0 * static_cast<double>(shape.layers * shape.hidden * shape.seq_len);
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
#include "model_table.inc"
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
