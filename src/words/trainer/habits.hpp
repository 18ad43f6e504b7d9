// SPDX-License-Identifier: Apache-2.0
// Habits of a family: what predictions of memory and time need to know of a trainer beside shapes
// and layout. The section `planner` of its file says them (trainer_file.hpp), under the names
// below.
#pragma once

#include <shardsweep/described.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Layers of each pipeline stage.
enum class StageSplit : std::uint8_t {
  even,     ///< L/p each, the first L mod p stages one more
  by_cost,  ///< equal matrix products; the head counts, and a block on the border goes to the
            ///< earlier stage
};
inline constexpr std::array<std::string_view, 2> stage_split_words{"even", "by_cost"};

/// Parts that `recompute: selective` computes again.
enum class Selective : std::uint8_t {
  norms_and_product,  ///< the two norms and silu*up
  attention,          ///< the attention probabilities, which flash attention never keeps
  second_products,    ///< all but the outputs of every second product and of attention
};
inline constexpr std::array<std::string_view, 3> selective_words{
    "norms_and_product", "attention", "second_products"};

/// Questions without a family for which this one is used.
enum class UsualOn : std::uint8_t { nothing, gpus, cpus };
inline constexpr std::array<std::string_view, 3> usual_on_words{"nothing", "gpus", "cpus"};

[[nodiscard]] constexpr const auto& words_of_habit(StageSplit) {
  return stage_split_words;
}
[[nodiscard]] constexpr const auto& words_of_habit(Selective) {
  return selective_words;
}
[[nodiscard]] constexpr const auto& words_of_habit(UsualOn) {
  return usual_on_words;
}

/// Memory habits of a trainer that shapes do not tell. Rows are tensors of s*b*h elements per
/// layer, ffn_rows of s*b*f.
struct MemoryFamily {
  double bf16_gradient_bytes = 4;
  bool flash_attention = true;
  double overhead_bytes = 0;

  double between_rows = 4;
  double query_rows = 2;
  double key_rows = 2;
  double ffn_rows = 3;
  double norm_row_bytes = 0;
  double probability_bytes = 0;
  double logits_bytes = 0;
  double working_layers = 0;

  /// One piece per class, as shardbench has them on GPUs: arenas_of_stage() in place of all
  /// rows.
  bool arenas = false;

  /// A ring over sockets holds one rank's part of a gradient bucket, NCCL the bucket.
  bool stages_parts = false;

  /// Values outside FP8 have 16 bits; false: fp32.
  bool half_beside_fp8 = true;
  bool fp8_inputs = false;

  /// A feed-forward part of f = 4h has no gate, as in GPT: Megatron's other kind. False: it always
  /// has one.
  bool plain_where_ffn_is_4h = false;

  std::int64_t vocab_multiple = 1;

  StageSplit split = StageSplit::even;
  Selective selective = Selective::norms_and_product;

  double allocator_bytes = 0;
  double bucket_bytes = 0;
  double step_gather_bytes = 0;
  double tp_buffer_rows = 0;
  double tp_retained_rows = 0;

  /// ZeRO 2 and 3 in a pipeline: once gathered, weights stay whole, and gradients are summed
  /// whole in fp32 until the last micro-batch, so that no micro-batch has a collective.
  bool whole_in_pipeline = false;

  friend bool operator==(const MemoryFamily&, const MemoryFamily&) = default;
};
// clang-format off
template <>
inline constexpr auto described<MemoryFamily> = [] {
  using M = MemoryFamily;
  using enum KeyType;
  return Entries{
      Key{"bf16_gradient_bytes", &M::bf16_gradient_bytes, {real, "per parameter in bf16: 4 for fp32 main gradients"}},
      Key{"flash_attention", &M::flash_attention, {boolean, "false: the attention probabilities of each layer stay"}},
      Key{"overhead_bytes", &M::overhead_bytes, {real, "per rank, outside the trainer's allocator"}},
      Key{"between_rows", &M::between_rows, {real, "between the TP regions: two residuals, two norms"}},
      Key{"query_rows", &M::query_rows, {real, "as large as Q: Q and the attention's output"}},
      Key{"key_rows", &M::key_rows, {real, "as large as K (g/a of Q): K and V"}},
      Key{"ffn_rows", &M::ffn_rows, {real, "gate, up, silu*up"}},
      Key{"norm_row_bytes", &M::norm_row_bytes, {real, "per norm and element of its row, in a run that is known to have no fused norms"}},
      Key{"probability_bytes", &M::probability_bytes, {real, "per probability, without flash attention; 0: as other values"}},
      Key{"logits_bytes", &M::logits_bytes, {real, "per logit; 0: as other values"}},
      Key{"working_layers", &M::working_layers, {real, "of the layer in backward: gradients of its activations"}},
      Key{"arenas", &M::arenas, {boolean, "one piece per class of memory, as shardbench has them on GPUs"}},
      Key{"stages_parts", &M::stages_parts, {boolean, "a receive buffer holds one rank's part of a bucket"}},
      Key{"half_beside_fp8", &M::half_beside_fp8, {boolean, "what is not in FP8 is in 16 bits; false: in fp32"}},
      Key{"fp8_inputs", &M::fp8_inputs, {boolean, "a product in FP8 keeps its input in 8 bits for backward"}},
      Key{"plain_where_ffn_is_4h", &M::plain_where_ffn_is_4h, {boolean, "a model whose ffn is 4 x hidden has no gate, as GPT"}},
      Key{"vocab_multiple", &M::vocab_multiple, {count, "each tp rank's part of the vocabulary is padded to it", 1, 1 << 20}},
      Key{"split", &M::split, {special, "layers of a stage: even, or by_cost: equal matrix products"}},
      Key{"selective", &M::selective, {special, "computed again by selective: norms_and_product, attention, or second_products: all but the outputs of every second product and of attention"}},
      Key{"allocator_bytes", &M::allocator_bytes, {real, "workspaces that the trainer's allocator counts"}},
      Key{"bucket_bytes", &M::bucket_bytes, {real, "per parameter with dp: gradients in bf16 besides fp32"}},
      Key{"step_gather_bytes", &M::step_gather_bytes, {real, "per parameter and ZeRO 1: gathered after the update"}},
      Key{"tp_buffer_rows", &M::tp_buffer_rows, {real, "whole rows (not / tp) that TP gathers into"}},
      Key{"tp_retained_rows", &M::tp_retained_rows, {real, "whole rows that await their collective, without a pipeline"}},
      Key{"whole_in_pipeline", &M::whole_in_pipeline, {boolean, "ZeRO 2 and 3 in a pipeline: weights and gradients stay whole until the last micro-batch"}},
  };
}();
// clang-format on

/// Speed of a trainer's own collectives, as a share of what a cluster's links reach.
struct LinkShares {
  double inside = 1;
  double between = 1;
  double adapters = 1;
  double waits = 1;
};
// clang-format off
template <>
inline constexpr auto described<LinkShares> = [] {
  using L = LinkShares;
  using enum KeyType;
  return Entries{
      Key{"links_inside", &L::inside, {real, "of what NCCL reaches inside a node, the trainer's share"}},
      Key{"links_between", &L::between, {real, "the same between nodes"}},
      Key{"links_adapters", &L::adapters, {real, "of all adapters of a node (the data sheet's bandwidth), what a ring over several reaches"}},
      Key{"links_waits", &L::waits, {real, "between nodes, how many times NCCL's latency a collective takes"}},
  };
}();
// clang-format on

/// Time costs of a trainer's own code, beside hardware. Seconds are the host's, per micro-batch.
struct TimeFamily {
  /// Rates of the trainer's own kernels, as shares of what good kernels reach. A cluster's
  /// efficiencies stand for the latter.
  double gemm_share = 1;
  double attention_share = 1;
  double attention_flops = 0;
  LinkShares links{};
  double launch_layer_s = 0;
  double launch_layer_tp_s = 0;
  double launch_layer_pipeline_tp_s = 0;
  double launch_stage_s = 0;
  double stage_message_s = 0;
  double activation_passes = 3;
  double parameter_bytes = 14;
  double logit_bytes = 12;
  double tp_exposed = 1;
  double overlap = 0.7;
  double contention = 0;
  double update_bytes = 40;
  double update_s = 0;
  double gather_tensor_s = 0;
  double gather_part_s = 0;
  double recomputed_again = 1;
  double selective_again = 0;
  /// Products of experts are narrow: with w columns they reach w / (w + this) of what a layer's
  /// do, with twice as much in FP8, whose products alone are faster.
  double narrow_columns = 512;
  bool sends_parts = false;
  bool once_per_node = false;
  /// FP8: weights are quantized once per train step, and what a norm or an activation writes is
  /// quantized as it is written.
  bool fused_quantization = false;
};
// clang-format off
template <>
inline constexpr auto described<TimeFamily> = [] {
  using T = TimeFamily;
  using enum KeyType;
  return Entries{
      Key{"gemm_share", &T::gemm_share, {real, "of what good kernels reach in products, the trainer's share"}},
      Key{"attention_share", &T::attention_share, {real, "the same in flash attention"}},
      Key{"attention_flops", &T::attention_flops, {real, "most FLOP/s that its attention reaches on any GPU; 0: no limit"}},
      Part{&T::links},
      Key{"launch_layer_s", &T::launch_layer_s, {real, "of a layer's kernels, forward and backward"}},
      Key{"launch_layer_tp_s", &T::launch_layer_tp_s, {real, "of a layer's kernels with tensor parallelism"}},
      Key{"launch_layer_pipeline_tp_s", &T::launch_layer_pipeline_tp_s, {real, "added per TP rank with tensor parallelism inside a pipeline"}},
      Key{"launch_stage_s", &T::launch_stage_s, {real, "of what is not in a layer"}},
      Key{"stage_message_s", &T::stage_message_s, {real, "of a stage's receives and sends"}},
      Key{"activation_passes", &T::activation_passes, {real, "times a layer's activations move through memory"}},
      Key{"parameter_bytes", &T::parameter_bytes, {real, "moved per parameter by a micro-batch: three reads, gradient added"}},
      Key{"logit_bytes", &T::logit_bytes, {real, "moved per logit"}},
      Key{"tp_exposed", &T::tp_exposed, {real, "of TP's transfers, what no product hides"}},
      Key{"overlap", &T::overlap, {real, "of backward, what DP's transfers hide behind"}},
      Key{"contention", &T::contention, {real, "share of a hidden transfer's time by which the work that hides it takes longer"}},
      Key{"update_bytes", &T::update_bytes, {real, "moved per parameter by clipping and update"}},
      Key{"update_s", &T::update_s, {real, "the update's launches"}},
      Key{"gather_tensor_s", &T::gather_tensor_s, {real, "ZeRO 1: per tensor of the stage"}},
      Key{"gather_part_s", &T::gather_part_s, {real, "ZeRO 1: per tensor and rank that has a part of it"}},
      Key{"recomputed_again", &T::recomputed_again, {real, "share of a layer's forward that full recomputation repeats"}},
      Key{"selective_again", &T::selective_again, {real, "of a layer's products' forward under selective"}},
      Key{"narrow_columns", &T::narrow_columns, {real, "products of experts with w columns reach w / (w + this) of a layer's"}},
      Key{"sends_parts", &T::sends_parts, {boolean, "with sequence parallelism a rank sends the rows of its own part alone to experts"}},
      Key{"once_per_node", &T::once_per_node, {boolean, "a row goes once to each node that has experts of its choice, and on from there"}},
      Key{"fused_quantization", &T::fused_quantization, {boolean, "FP8: values are quantized as they are written, weights once per train step"}},
  };
}();
// clang-format on

/// Trainers that keep the same things in memory and order their work the same way.
struct Family {
  std::string name;
  std::string trainer;
  std::string title;
  /// The trainer of configuration.hpp in whose words its layouts are written; empty: none.
  std::string words;
  std::string fitted_to = "formulas and sources, no runs";
  UsualOn usual_on = UsualOn::nothing;
  MemoryFamily memory;
  /// Habits of the trainer at its best: the optimistic bound. None: optimistic_memory, which knows
  /// no trainer's habits.
  std::optional<MemoryFamily> least;
  double constants_off_by = 0.25;
  double certain_optimizer = 1;
  TimeFamily time;
  bool reports_first_stage = false;
  bool retries_near_the_limit = false;
  bool measured_on_gpus = true;
};
// clang-format off
template <>
inline constexpr auto described<Family> = [] {
  using F = Family;
  using enum KeyType;
  return Entries{
      Key{"family", &F::name, {text, "its name in --family, if that is not the file's"}},
      Key{"of", &F::trainer, {text, "the programs that it is about"}},
      Key{"title", &F::title, {text, "the family's own name, if that is not the trainer's"}},
      Key{"fitted_to", &F::fitted_to, {text, "what its constants are from"}},
      Key{"usual_on", &F::usual_on, {special, "the clusters of which it answers questions that name no family: gpus or cpus"}},
      Key{"constants_off_by", &F::constants_off_by, {real, "how far the constants of planner_least may be off in somebody else's sweep; 0: they are exact"}},
      Key{"certain_optimizer", &F::certain_optimizer, {real, "of Adam's state in fp32 beside 16 bits, 12 bytes per parameter, the share that is certain"}},
      Key{"reports_first_stage", &F::reports_first_stage, {boolean, "the peak that it reports is its first rank's"}},
      Key{"retries_near_the_limit", &F::retries_near_the_limit, {boolean, "near the memory limit its allocator frees cached blocks and tries again: such runs complete, and take up to four times as long"}},
      Key{"measured_on_gpus", &F::measured_on_gpus, {boolean, "some of its runs on GPUs were compared with predictions"}},
      Part{&F::memory}, Part{&F::time},
  };
}();
// clang-format on

/// Names of the keys of a family, and of its memory alone.
[[nodiscard]] std::vector<std::string_view> habits_of_families();
[[nodiscard]] std::vector<std::string_view> habits_of_memory();

/// Sets the habit of this name from its text: what is wrong with that, or nothing. Numbers may be
/// quotients (4/12) and sizes (0.3 GiB). Passes over a name that there is not.
std::optional<std::string> set_habit(Family& family, std::string_view name, std::string_view text);
std::optional<std::string> set_habit(
    MemoryFamily& memory, std::string_view name, std::string_view text);

}  // namespace shardsweep
