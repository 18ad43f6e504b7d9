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
  return shape.layers * layer_parameters(shape) + 2 * shape.vocab * shape.hidden + shape.hidden;
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

const std::vector<NamedShape>& named_shapes() {
  // layers, hidden, ffn, heads, kv_heads, vocab, seq_len
  static const std::vector<NamedShape> shapes{
      {"tiny", {2, 64, 128, 4, 2, 256, 64}},
      {"mini", {4, 128, 352, 8, 4, 512, 128}},
      {"llama-1b", {16, 2048, 8192, 32, 32, 50257, 4096}},
      {"llama-7b", {32, 4096, 11008, 32, 32, 32000, 4096}},
      {"llama-13b", {40, 5120, 13824, 40, 40, 32000, 4096}},
      {"llama-30b", {60, 6656, 17920, 52, 52, 32000, 4096}},
      {"llama-65b", {80, 8192, 22016, 64, 64, 32000, 4096}},
      {"llama3-8b", {32, 4096, 14336, 32, 8, 128256, 8192}},
      {"llama3-70b", {80, 8192, 28672, 64, 8, 128256, 8192}},
  };
  return shapes;
}

std::optional<ModelShape> find_shape(std::string_view name) {
  for (const NamedShape& entry : named_shapes())
    if (entry.name == name) return entry.shape;
  return std::nullopt;
}

}  // namespace shardbench
