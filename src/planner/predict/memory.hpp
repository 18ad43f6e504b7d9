// SPDX-License-Identifier: Apache-2.0
// Memory per rank, by class, of a Llama-like model under a layout: bytes, from shapes and from
// what a family of trainers is known to keep.
//
// Symbols: L layers, h hidden, f ffn, a heads, g kv heads, V vocab, s seq_len, b micro_batch,
// m grad_accum, t tp, p pp, v vpp, d dp / dp_replicate, e bytes of an element, N parameters.
#pragma once

#include "trainer/habits.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/point.hpp>

#include <cstdint>
#include <optional>

namespace shardsweep {

struct LayerShape;

/// N: per layer 2hq (1 + g/a) + 3hf + 2h, q = a times the values of a head; embedding and head
/// Vh each (one where tied); the last norm h. A layer with E experts, S shared ones and their
/// width w has 3hw (E + S) + hE in place of 3hf. Latent attention (MLA) has the sum of
/// LatentAttention (layer_shape.hpp) in place of 2hq (1 + g/a). A layer that predicts later
/// tokens (MTP) is one more of the last kind, with 2h^2 + 3h; embedding and head are the
/// model's own. Without a gate 3 is 2. A hybrid has each part as often as it has layers of that
/// kind, and h (3 w + 2 k) for a state-space mixer. Biases and learnt positions, less than 1 %,
/// are left out. The same in every layout.
[[nodiscard]] std::int64_t parameters(const ModelSpec& model);
/// Parameters that a token goes through: only its experts, in MTP's layers too.
[[nodiscard]] std::int64_t active_parameters(const ModelSpec& model);

/// Entries of the vocabulary with what pads it to `multiple` for each tp rank: shardbench and
/// Megatron pad to 128.
inline constexpr std::int64_t shardbench_vocab_multiple = 128;
[[nodiscard]] std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t multiple);

/// Properties of a run's trainer in a recorded table that are no axis. Unset: the family's habit.
struct RunTraits {
  std::optional<bool> flash_attention;  ///< false: the probabilities of each layer are kept
  std::optional<bool> fused_norm;       ///< one kernel per norm, which keeps its input alone
  /// Stage whose peak is reported, and layers that full recompute takes at a time: see RecordedRun.
  std::optional<std::int32_t> peak_stage{};
  std::int32_t recompute_layers = 0;
  bool recompute_by_block = false;
  friend bool operator==(const RunTraits&, const RunTraits&) = default;
};

/// shardbench on a CPU: keeps the probabilities. Its limit and its peak count tensors alone: a
/// process's code and stack are no part of them.
[[nodiscard]] const MemoryFamily& shardbench_cpu_memory();

/// Bytes per rank of the stage that needs most: the first (most in flight, embedding), the
/// first without dense layers where others have experts, or the last (head, logits).
///
/// Weights, gradients, optimizer per parameter, with ZeRO [Rajbhandari, arXiv 1910.02054]: bf16
/// with fp32 master and moments 2 + 4 + 12, at stage 1 6 + 12/d, 2: 2 + 16/d, 3: 18/d; fp32 has
/// no master: 4 + 4 + 8; fp64 8 + 8 + 16. N is divided by tp and stage; norms are whole in
/// every TP rank.
///
/// Of latent attention every TP rank has what makes latents, h (c + r + u) + c + r. MTP lies on
/// the stage that has the head: a layer, 2h^2 / t + 3h, a copy of the embedding if another
/// stage has it, and logits again.
///
/// Activations per layer and micro-batch, tensor by tensor (method of Korthikanti, arXiv
/// 2205.05198, section 4), here with shardbench's rows:
///   A = e (sbh (6 + 2g/a) + 3sbf) + 4sba, what lies between the TP regions (4 e sbh) divided
///   by t only under sequence parallel. selective: without the two norms and silu*up; full: the
/// layer's input, and one layer's A while it is computed again; with `recompute_layers` k the
/// input of each k layers and k layers' A, or by block k layers so and the others whole. In
/// flight on stage i: 1F1B
/// min(m, p - i), all-forward-all-backward m; interleaved, p >= 2: L/p (1 + (p - 1)/(p v))
/// layers' worth per p in flight. Probabilities: e a s^2 b / t. Logits: e s b V / t, gradients
/// in place. Communication: a gradient bucket, the receive buffers of a pipeline, and two
/// gathered units (layer or embedding) under ZeRO 3.
///
/// Latent attention keeps e sb (2 (c + r) + u) more between the TP regions, and Q, K, V, O as
/// all heads' values, e sb (2q + 2v) / t in place of e sbh (2 + 2g/a) / t; with mla_up_proj
/// computed again e sb (c + r + u) and O alone. MTP's layer keeps 6 rows e sbh more, computed
/// again 4.
///
/// The largest of three moments: all micro-batches of a pipeline in flight; the last backward,
/// where bf16 gradients lie beside the fp32 ones; the update, without activations.
[[nodiscard]] MemoryEstimate estimate_memory(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits = {});

/// Estimates one stage, 0-based.
[[nodiscard]] MemoryEstimate estimate_stage(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, std::int32_t stage);

/// Bytes of the first stage's tensors around the update, when no activation is left. Trainers log
/// them as allocated between two train steps.
[[nodiscard]] std::int64_t update_bytes(
    const ModelSpec& model, const Point& point, const MemoryFamily& family);

/// True if a layer's feed-forward part has two matrices instead of three.
[[nodiscard]] bool is_plain(const ModelSpec& model, const MemoryFamily& family);

/// Bytes of activations that one layer, dense or with experts, makes of one micro-batch on a rank.
[[nodiscard]] double layer_activation_bytes(const LayerShape& shape, const ModelSpec& model,
    const Point& point, const MemoryFamily& family, const RunTraits& traits, bool experts = false);

/// Part of layer_activation_bytes() that the layer drops and computes again.
[[nodiscard]] double layer_dropped_bytes(const LayerShape& shape, const ModelSpec& model,
    const Point& point, const MemoryFamily& family, const RunTraits& traits, bool experts = false);

/// Layers on a stage, 0-based.
[[nodiscard]] double layers_of_stage(const LayerShape& shape, StageSplit split, std::int32_t stage);

/// Layers without experts among them; all, if the model has no experts.
[[nodiscard]] double dense_layers_of_stage(
    const LayerShape& shape, const Layout& layout, StageSplit split, std::int32_t stage);

/// A stage between the first and the last, if those have layers of their own number; else 0.
[[nodiscard]] std::int32_t stage_between(const Layout& layout);

/// The first stage whose layers all have experts; 0 if the first ones are not dense.
[[nodiscard]] std::int32_t sparse_stage(
    const LayerShape& shape, const Layout& layout, StageSplit split);

/// Takes a model whose shape is not computed yet.
[[nodiscard]] double layer_activation_bytes(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, bool experts = false);
[[nodiscard]] double layer_dropped_bytes(const ModelSpec& model, const Point& point,
    const MemoryFamily& family, const RunTraits& traits, bool experts = false);
[[nodiscard]] double layers_of_stage(
    const ModelSpec& model, const Layout& layout, StageSplit split, std::int32_t stage);
[[nodiscard]] double dense_layers_of_stage(
    const ModelSpec& model, const Layout& layout, StageSplit split, std::int32_t stage);
[[nodiscard]] std::int32_t sparse_stage(
    const ModelSpec& model, const Layout& layout, StageSplit split);

/// A lower bound whatever else the trainer does well, with Adam's state in fp32 beside 16 bits
/// (Family::certain_optimizer knows who keeps less): bf16 gradients, everything sharded by tp
/// and any split of the layers over stages; weights, gradients, optimizer and one micro-batch's
/// activations as `recompute` keeps them; no log-sum-exp, logits, buffers or runtime.
[[nodiscard]] MemoryEstimate optimistic_memory(
    const ModelSpec& model, const Point& point, const RunTraits& traits = {});

/// shardbench's memory on GPUs, exactly: it takes one piece per class before it trains, as
/// large as that class's own peak. runner/README.md has the formulas; `shardbench --device
/// meta` counts the same, and a test holds the two together. Bytes of one stage, 0-based, in
/// bf16, without what lies outside the pieces.
[[nodiscard]] MemoryEstimate arenas_of_stage(
    const ModelSpec& model, const Point& point, const MemoryFamily& family, std::int32_t stage);

}  // namespace shardsweep
