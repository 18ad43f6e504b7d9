// SPDX-License-Identifier: Apache-2.0
// A Llama-like model's shape, and a cluster's hardware: the presets that sweeps name.
#pragma once

#include <shardsweep/described.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace shardsweep {

/// Shape of a decoder, as a list of kinds of layers: how many layers have attention, a
/// state-space mixer, a dense feed-forward part, or experts. A number that is 0 says that the
/// model is as Llama there (RMSNorm, RoPE, GQA, SwiGLU), so that later numbers change no identity.
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
  std::int64_t experts = 0;            ///< experts of each layer; 0: all layers are dense
  std::int64_t experts_per_token = 0;  ///< experts that a router chooses
  std::int64_t expert_ffn = 0;         ///< width of one expert's SwiGLU
  std::int64_t shared_experts = 0;     ///< experts that every token goes through, of the same width
  std::int64_t dense_layers = 0;       ///< the first ones, which have no experts
  // Multi-head latent attention: keys and values of all heads come from one latent, beside a
  // part of each key that all heads share.
  std::int64_t kv_lora_rank = 0;      ///< values of that latent; 0: plain attention
  std::int64_t q_lora_rank = 0;       ///< values of the queries' latent; 0: they have none
  std::int64_t qk_rope_head_dim = 0;  ///< part of head_dim that the rotary embedding turns
  std::int64_t v_head_dim = 0;        ///< values of a head's values; 0: head_dim
  std::int64_t mtp_layers = 0;        ///< layers that predict tokens beyond the next one
  std::int64_t ffn_matrices = 0;      ///< 2: a feed-forward part without gate; 0: three
  std::int64_t expert_layers = 0;     ///< spread evenly behind the dense ones; 0: all of those
  std::int64_t shared_ffn = 0;        ///< width of all shared experts; 0: by their number
  std::int64_t window = 0;            ///< tokens before it that a token sees; 0: all
  std::int64_t window_layers = 0;     ///< layers with the window; 0: all layers
  // Hybrids, whose layers do not all have attention and a feed-forward part. A mixer of w values
  // and keys of k has matrices of h (3 w + 2 k): input, gate and output; what writes and reads
  // its state.
  std::int64_t attention_layers = 0;  ///< 0: all without a state-space mixer
  std::int64_t ffn_layers = 0;        ///< layers with a feed-forward part or experts; 0: all
  std::int64_t state_layers = 0;      ///< layers with a state-space or linear-attention mixer
  std::int64_t state_width = 0;
  std::int64_t state_keys = 0;
  std::string note;  ///< parts that predictions leave out; empty: none

  /// Values of one head, and of all heads' queries.
  [[nodiscard]] std::int64_t head_size() const { return head_dim > 0 ? head_dim : hidden / heads; }
  [[nodiscard]] std::int64_t query_width() const { return heads * head_size(); }
  [[nodiscard]] bool is_latent() const { return kv_lora_rank > 0; }
  /// Layers by what they have.
  [[nodiscard]] std::int64_t with_attention() const {
    return attention_layers > 0 ? attention_layers : layers - state_layers;
  }
  [[nodiscard]] std::int64_t with_experts() const {
    if (experts == 0) return 0;
    return expert_layers > 0 ? expert_layers : layers - dense_layers;
  }
  [[nodiscard]] std::int64_t with_dense() const {
    return (ffn_layers > 0 ? ffn_layers : layers) - with_experts();
  }
  [[nodiscard]] std::int64_t with_window() const {
    return window == 0 ? 0 : window_layers > 0 ? window_layers : with_attention();
  }
  /// All shared experts of a layer.
  [[nodiscard]] std::int64_t shared_width() const {
    return shared_ffn > 0 ? shared_ffn : shared_experts * expert_ffn;
  }
  [[nodiscard]] std::int64_t matrices_of_ffn() const { return ffn_matrices == 2 ? 2 : 3; }
  /// The kind of layers that no prediction knows; empty: all are predicted.
  [[nodiscard]] std::string_view unpredicted() const {
    if (state_layers > 0) return "state-space or linear-attention layers";
    if (attention_layers > 0 && attention_layers < layers) return "layers without attention";
    return ffn_layers > 0 && ffn_layers < layers ? "layers without a feed-forward part" : "";
  }
  /// Width of attention's output before its last product.
  [[nodiscard]] std::int64_t value_width() const {
    return heads * (v_head_dim > 0 ? v_head_dim : head_size());
  }
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

// clang-format off
template <>
inline constexpr auto described<ModelSpec> = [] {
  using M = ModelSpec;
  constexpr auto count = KeyType::count;
  constexpr auto optional = Flag::optional;
  return Entries{
      Key{"layers", &M::layers, {count, "transformer layers", 1, 1 << 14, "num_hidden_layers"}},
      Key{"hidden", &M::hidden, {count, "hidden size", 1, 1 << 20, "hidden_size"}},
      Key{"ffn", &M::ffn, {count, "size of the feed-forward layer", 1, 1 << 22, "intermediate_size"}},
      Key{"heads", &M::heads, {count, "attention heads", 1, 1 << 16, "num_attention_heads"}},
      Key{"kv_heads", &M::kv_heads, {count, "key and value heads", 1, 1 << 16, "num_key_value_heads", {}, "heads"}},
      Key{"vocab", &M::vocab, {count, "size of the vocabulary", 1, 1 << 26, "vocab_size"}},
      Key{"head_dim", &M::head_dim, {count, "values of one head; 0: hidden / heads", 0, 1 << 16, "head_size", {}, "hidden / heads"}, optional},
      Key{"experts", &M::experts, {count, "experts of each layer; 0: all layers are dense", 0, 1 << 16, "num_experts", {}, "0"}, optional},
      Key{"experts_per_token", &M::experts_per_token, {count, "experts that a router chooses for a token", 0, 1 << 16, "num_experts_per_tok"}, optional},
      Key{"expert_ffn", &M::expert_ffn, {count, "width of one expert", 0, 1 << 22, "moe_intermediate_size"}, optional},
      Key{"shared_experts", &M::shared_experts, {count, "experts that every token goes through", 0, 1 << 10, "n_shared_experts", {}, "0"}, optional},
      Key{"dense_layers", &M::dense_layers, {count, "first layers without experts", 0, 1 << 14, "first_k_dense_replace", {}, "0"}, optional},
      Key{"kv_lora_rank", &M::kv_lora_rank, {count, "values of the latent of keys and values (MLA); 0: plain attention", 0, 1 << 16, {}, {}, "0"}, optional},
      Key{"q_lora_rank", &M::q_lora_rank, {count, "values of the queries' latent; 0: queries have none", 0, 1 << 16, {}, {}, "0"}, optional},
      Key{"qk_rope_head_dim", &M::qk_rope_head_dim, {count, "of a head's values those that the rotary embedding turns, one key for all heads", 0, 1 << 16, {}, {}, "0"}, optional},
      Key{"v_head_dim", &M::v_head_dim, {count, "values of one head's values; 0: head_dim", 0, 1 << 16, {}, {}, "head_dim"}, optional},
      Key{"mtp_layers", &M::mtp_layers, {count, "layers that predict tokens beyond the next one", 0, 64, "num_nextn_predict_layers", {}, "0"}, optional},
      Key{"ffn_matrices", &M::ffn_matrices, {count, "matrices of a feed-forward part: 2 without a gate; 0: three", 0, 3, {}, {}, "0"}, optional},
      Key{"expert_layers", &M::expert_layers, {count, "layers with experts, spread evenly behind the dense ones; 0: all but those", 0, 1 << 14, {}, {}, "0"}, optional},
      Key{"shared_ffn", &M::shared_ffn, {count, "width of all shared experts of a layer; 0: shared_experts x expert_ffn", 0, 1 << 22, "shared_expert_intermediate_size", {}, "0"}, optional},
      Key{"window", &M::window, {count, "tokens that attention looks back; 0: all", 0, 1 << 26, "sliding_window", {}, "0"}, optional},
      Key{"window_layers", &M::window_layers, {count, "layers that have the window; 0: all", 0, 1 << 14, {}, {}, "0"}, optional},
      Key{"attention_layers", &M::attention_layers, {count, "layers with attention; 0: all without a state-space mixer", 0, 1 << 14, {}, {}, "0"}, optional},
      Key{"ffn_layers", &M::ffn_layers, {count, "layers with a feed-forward part or experts; 0: all", 0, 1 << 14, {}, {}, "0"}, optional},
      Key{"state_layers", &M::state_layers, {count, "layers with a state-space or linear-attention mixer", 0, 1 << 14, {}, {}, "0"}, optional},
      Key{"state_width", &M::state_width, {count, "values that such a mixer puts out", 0, 1 << 20, {}, {}, "0"}, optional},
      Key{"state_keys", &M::state_keys, {count, "values of its keys: groups x state size", 0, 1 << 20, {}, {}, "0"}, optional},
      Key{"tied_embeddings", &M::tied_embeddings, {.type = KeyType::boolean, .meaning = "input and output embeddings are one matrix", .alias = "tie_word_embeddings"}, optional},
      Key{"note", &M::note, {KeyType::text, "what predictions leave out of the model, in a sentence", 0, 400}, optional},
  };
}();
// clang-format on

/// A number of a model's shape, by its name in sweep files, columns and expressions.
struct ShapeField {
  std::string_view name;
  std::int64_t ModelSpec::*member;
  bool optional;           ///< 0 if a model has no such thing
  std::string_view alias;  ///< name in other trainers' and libraries' files
  std::int64_t most;
  std::string_view meaning;
};
/// The numbers among the keys of a model: all but tied_embeddings and note.
inline constexpr auto shape_fields = [] {
  std::array<ShapeField, described<ModelSpec>.size - 2> fields{};
  std::size_t at = 0;
  visit_fields<ModelSpec>([&](const auto& key) {
    using Member = std::remove_cvref_t<decltype(key.member)>;
    if constexpr (std::is_same_v<Member, std::int64_t ModelSpec::*>)
      fields.at(at++) = {key.name, key.member, key.is(Flag::optional), key.facts.alias,
          key.facts.most, key.facts.meaning};
  });
  return fields;
}();
static_assert(shape_fields.back().member != nullptr);

/// fp8: the layers' products in FP8 with current scaling, fp8_delayed: with delayed scaling;
/// all else as in bf16. fp16: as bf16 in bytes and rates; its loss scale may skip train steps.
enum class Dtype : std::uint8_t { bf16, fp32, fp64, fp8, fp8_delayed, fp16 };
inline constexpr std::array<std::string_view, 6> dtype_words{
    "bf16", "fp32", "fp64", "fp8", "fp8-delayed", "fp16"};
[[nodiscard]] constexpr bool is_fp8(Dtype dtype) {
  return dtype == Dtype::fp8 || dtype == Dtype::fp8_delayed;
}
/// Weights and activations in 16 bits, beside which fp32 masters are kept.
[[nodiscard]] constexpr bool is_half(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::fp16 || is_fp8(dtype);
}
/// Bytes of a weight, or of an activation that is kept.
[[nodiscard]] constexpr std::int64_t bytes_of(Dtype dtype) {
  return is_half(dtype) ? 2 : dtype == Dtype::fp32 ? 4 : 8;
}
/// Rates are those of a format, whatever its scaling; both formats of 16 bits have one.
inline constexpr std::array<std::string_view, 4> peak_words{"bf16", "fp32", "fp64", "fp8"};
[[nodiscard]] constexpr std::size_t peak_index(Dtype dtype) {
  if (dtype == Dtype::fp16) dtype = Dtype::bf16;
  return static_cast<std::size_t>(is_fp8(dtype) ? Dtype::fp8 : dtype);
}

/// A hardware preset. Rates are per GPU ("GPU" is a slot of the host on this-machine).
struct ClusterSpec {
  std::string name;
  std::string gpu;  ///< the device's name as the driver gives it; empty: unknown, so no MFU
  int gpus_per_node = 0;
  std::int64_t memory_bytes = 0;  ///< memory per GPU
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
  /// Shares that good kernels and NCCL reach; a trainer's family has the share of those that it
  /// reaches.
  double gemm_efficiency = 0.7;
  double attention_efficiency = 0.55;
  double intra_node_efficiency = 0.7;
  double inter_node_efficiency = 0.8;
  bool this_machine = false;  ///< always run locally, whatever scheduler is installed
  bool shared_host = true;    ///< true: other users of the host's CPUs do not spoil a measurement
  std::string note;           ///< origin of its numbers, if nobody has measured them

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};
// clang-format off
template <>
inline constexpr auto described<ClusterSpec> = [] {
  using C = ClusterSpec;
  using enum KeyType;
  constexpr auto optional = Flag::optional;
  constexpr std::int64_t mebibyte = 1 << 20;
  constexpr std::int64_t most_memory = std::int64_t{1} << 50;
  return Entries{
      Key{"name", &C::name, {.type = KeyType::name, .meaning = "required without a preset", .otherwise = "the preset's"}},
      Key{"gpu", &C::gpu, {text, "name of the GPU as the driver gives it; empty means CPU slots", 0, 128}, optional},
      Key{"gpus_per_node", &C::gpus_per_node, {count, "GPUs, or slots, of a node", 1, 1024}},
      Key{"memory", &C::memory_bytes, {bytes, "memory of one GPU or slot", mebibyte, most_memory}},
      Key{"peak_flops", &C::peak_flops, {.meaning = "dense peak of one GPU in FLOP/s: {bf16: 989e12}; without it there is no MFU", .takes = "a map by dtype"}, optional},
      Key{"memory_bandwidth", &C::memory_bandwidth, {rate, "bandwidth of device memory"}, optional},
      Key{"intra_node_bandwidth", &C::intra_node_bandwidth, {rate, "bandwidth of a GPU's links inside the node, one direction"}, optional},
      Key{"inter_node_bandwidth", &C::inter_node_bandwidth, {rate, "bandwidth of a GPU's network adapter, one direction"}, optional},
      Key{"inter_node_group_bandwidth", &C::inter_node_group_bandwidth, {rate, "bandwidth of a ring over several adapters of a node, per GPU"}, optional},
      Key{"intra_node_latency", &C::intra_node_latency_us, {latency, "latency of a small message inside the node"}, optional},
      Key{"inter_node_latency", &C::inter_node_latency_us, {latency, "latency of a small message between nodes"}, optional},
      Key{"gemm_efficiency", &C::gemm_efficiency, {share, "share of the peak in a layer's matrix products"}, optional},
      Key{"attention_efficiency", &C::attention_efficiency, {share, "share of the peak in flash attention"}, optional},
      Key{"intra_node_efficiency", &C::intra_node_efficiency, {share, "share of intra_node_bandwidth in collectives"}, optional},
      Key{"inter_node_efficiency", &C::inter_node_efficiency, {share, "share of inter_node_bandwidth in collectives"}, optional},
      Key{"this_machine", &C::this_machine, {boolean, "always run on this machine, without a scheduler"}},
      Key{"shared_host", &C::shared_host, {boolean, "others may use the host's CPUs during a measurement"}},
      Key{"note", &C::note, {text, "where the numbers come from, in a sentence", 0, 400}, optional},
  };
}();
// clang-format on

}  // namespace shardsweep
