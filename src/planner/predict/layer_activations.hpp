// SPDX-License-Identifier: Apache-2.0
// Activations of one layer: all that it makes, and what it keeps for backward by its trainer's
// habits.
#pragma once

#include "predict/layer_shape.hpp"
#include "predict/memory.hpp"

namespace shardsweep {

/// One family's habits for one point.
struct Habits {
  const MemoryFamily& family;
  RunTraits run;
  bool plain;  // two matrices in the feed-forward part
  bool flash;
  bool fused_norm;
  bool graphs = false;    // layers are CUDA graphs
  double kept_input = 1;  // share of a product input's bytes that is kept for backward
  /// Habits of layers while they compute.
  Habits(const ModelSpec& model, const MemoryFamily& of, const RunTraits& traits)
      : family(of),
        run(traits),
        plain(is_plain(model, of)),
        flash(traits.flash_attention.value_or(of.flash_attention)),
        fused_norm(traits.fused_norm.value_or(true) || plain) {}
  /// Habits of layers whose activations wait for backward.
  Habits(const ModelSpec& model, const MemoryFamily& of, const RunTraits& traits, Dtype dtype,
      bool cuda_graphs)
      : Habits(model, of, traits) {
    graphs = cuda_graphs;
    if (is_fp8(dtype) && of.fp8_inputs) kept_input = 1 / real(bytes_of(dtype));
  }
};

/// Bytes of one layer's activations between (sequence-parallel) and inside TP regions, and of
/// rows on their way to experts and back, which every TP rank has.
struct LayerActivations {
  double between, inside;            // kept when nothing is recomputed
  double kept_between, kept_inside;  // kept under the point's recompute
  double routed = 0, kept_routed = 0;
};

/// Bytes that attention keeps beside its inputs and output: log-sum-exp in fp32, or P. GPT's P
/// includes the dropout's mask and output [arXiv 2205.05198, section 4.1].
[[nodiscard]] double attention_bytes(const LayerShape& shape, const Habits& habits);

/// Activations of a layer whose feed-forward part is dense or has experts.
[[nodiscard]] LayerActivations layer_activations(const LayerShape& shape, const Habits& habits,
    Recompute recompute, double attention, bool experts = false);

}  // namespace shardsweep
