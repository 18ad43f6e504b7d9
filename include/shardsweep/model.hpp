// SPDX-License-Identifier: Apache-2.0
// A Llama-like model's shape, and a cluster's hardware: the presets that sweeps name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// Shape of a Llama-like transformer (RMSNorm, RoPE, GQA, SwiGLU), dense or with a mixture of
/// experts in each layer but the first ones.
struct ModelSpec {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t vocab = 0;
  bool tied_embeddings = false;
  std::int64_t head_dim = 0;           ///< values of a head; 0: hidden / heads
  std::int64_t experts = 0;            ///< of each layer; 0: all layers are dense
  std::int64_t experts_per_token = 0;  ///< that a router chooses
  std::int64_t expert_ffn = 0;         ///< width of one expert's SwiGLU
  std::int64_t shared_experts = 0;     ///< that every token goes through, of the same width
  std::int64_t dense_layers = 0;       ///< the first ones, which have no experts

  /// Values of one head, and of all heads' queries.
  [[nodiscard]] std::int64_t head_size() const {
    return head_dim > 0 ? head_dim : hidden / heads;
  }
  [[nodiscard]] std::int64_t query_width() const { return heads * head_size(); }
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// A number of a model's shape, by its name in sweep files, columns and expressions.
struct ShapeField {
  std::string_view name;
  std::int64_t ModelSpec::*member;
  bool optional;  ///< 0 where a model has no such thing
};
inline constexpr std::array<ShapeField, 12> shape_fields{{
    {"layers", &ModelSpec::layers, false},
    {"hidden", &ModelSpec::hidden, false},
    {"ffn", &ModelSpec::ffn, false},
    {"heads", &ModelSpec::heads, false},
    {"kv_heads", &ModelSpec::kv_heads, false},
    {"vocab", &ModelSpec::vocab, false},
    {"head_dim", &ModelSpec::head_dim, true},
    {"experts", &ModelSpec::experts, true},
    {"experts_per_token", &ModelSpec::experts_per_token, true},
    {"expert_ffn", &ModelSpec::expert_ffn, true},
    {"shared_experts", &ModelSpec::shared_experts, true},
    {"dense_layers", &ModelSpec::dense_layers, true},
}};

/// fp8: the layers' products in FP8 with current scaling, fp8_delayed: with delayed scaling;
/// all else as in bf16.
enum class Dtype : std::uint8_t { bf16, fp32, fp64, fp8, fp8_delayed };
inline constexpr std::array<std::string_view, 5> dtype_words{"bf16", "fp32", "fp64", "fp8",
                                                             "fp8-delayed"};
[[nodiscard]] constexpr bool is_fp8(Dtype dtype) {
  return dtype == Dtype::fp8 || dtype == Dtype::fp8_delayed;
}
/// Weights and activations in 16 bits, beside which fp32 masters are kept.
[[nodiscard]] constexpr bool is_half(Dtype dtype) {
  return dtype == Dtype::bf16 || is_fp8(dtype);
}
/// Of a weight, or an activation that is kept.
[[nodiscard]] constexpr std::int64_t bytes_of(Dtype dtype) {
  return is_half(dtype) ? 2 : dtype == Dtype::fp32 ? 4 : 8;
}
/// Rates are those of a format, whatever its scaling.
inline constexpr std::array<std::string_view, 4> peak_words{"bf16", "fp32", "fp64", "fp8"};
[[nodiscard]] constexpr std::size_t peak_index(Dtype dtype) {
  return static_cast<std::size_t>(is_fp8(dtype) ? Dtype::fp8 : dtype);
}

/// A hardware preset. Rates are per GPU ("GPU" is a slot of the host on this-machine).
struct ClusterSpec {
  std::string name;
  std::string gpu;  ///< the device's name as the driver gives it; empty: unknown, so no MFU
  int gpus_per_node = 0;
  std::int64_t memory_bytes = 0;  ///< per GPU
  /// Dense peak in FLOP/s by peak_words; none: unknown, so no MFU and no time prediction from
  /// it.
  std::array<std::optional<double>, peak_words.size()> peak_flops{};
  [[nodiscard]] const std::optional<double>& peak(Dtype dtype) const {
    return peak_flops[peak_index(dtype)];
  }
  double memory_bandwidth = 0;      ///< bytes/s of device memory
  double intra_node_bandwidth = 0;  ///< bytes/s per GPU, one direction
  double inter_node_bandwidth = 0;  ///< bytes/s per GPU, one direction
  double intra_node_latency_us = 0;
  double inter_node_latency_us = 0;
  /// Bytes/s that a ring over several adapters of a node reaches, per rank; 0: as many as its
  /// adapters.
  double inter_node_group_bandwidth = 0;
  double gemm_efficiency = 0.55;        ///< of the peak, in a layer's matrix products
  double attention_efficiency = 0.35;   ///< of the peak, in flash attention
  double intra_node_efficiency = 0.53;  ///< of intra_node_bandwidth, in collectives
  double inter_node_efficiency = 0.54;  ///< of inter_node_bandwidth, in collectives
  bool this_machine = false;            ///< always run locally, whatever scheduler is installed
  bool shared_host = true;  ///< others may use the host's CPUs without spoiling a measurement

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

}  // namespace shardsweep
