// SPDX-License-Identifier: Apache-2.0
// One transformer layer, forward and backward: RMSNorm, attention, RMSNorm, SwiGLU or experts,
// each with its residual. Every product and every crossing between TP ranks is visible here.
#pragma once

#include "device/fp8_scaling.hpp"
#include "model/moe_layer.hpp"
#include "parallel/rank_context.hpp"

namespace shardbench {

/// Activations that forward keeps for backward (README, "Activation memory"). Recompute selective
/// drops the norms' outputs and the activated rows, or the attended values and their log-sum-exp,
/// as the profile has it; full keeps residual_in alone.
struct LayerActivations {
  Block residual_in;   // [rows, hidden]
  Block norm1;         // [rows, hidden]
  Block qkv;           // [tokens, (heads + 2·kv_heads)·head_dim / tp], rotated
  Block attended;      // [tokens, heads·head_dim / tp]
  Block lse;           // [tokens, heads / tp], gradient format
  Block residual_mid;  // [rows, hidden]
  Block norm2;         // [rows, hidden]
  Block gate_up;       // [tokens, 2·ffn / tp]; of experts, those that all tokens have
  Block activated;     // [tokens, ffn / tp]
  ExpertActivations experts;
  Fp8Magnitudes magnitudes;
};

/// Takes residual_in out of `saved` as input; returns the residual stream after the layer.
Block layer_forward(const RankContext& context, const UnitView& weights, Recompute recompute,
    LayerActivations& saved);

/// `stream` [rows, hidden]: gradient of the output, becomes that of the input. `gradients` are
/// added to. Uses up `saved`, recomputing what `recompute` dropped.
void layer_backward(const RankContext& context, const UnitView& weights, const UnitView& gradients,
    Recompute recompute, LayerActivations saved, Block& stream);

/// Work that the gradient to a layer's input leaves for the weights' gradients: factors of its
/// products, gradients of their results, and the norms' finished gradients.
struct WeightWork {
  Block norm1;      // [rows, hidden]
  Block d_qkv;      // gradients of q, k, v as projected
  Block attended;   // [tokens, heads·head_dim / tp]
  Block d_mid;      // [rows, hidden]: gradient of residual_mid
  Block norm2;      // [rows, hidden]
  Block d_gate_up;  // [tokens, 2·ffn / tp]
  Block activated;  // [tokens, ffn / tp]
  Block d_out;      // [rows, hidden]: gradient of the layer's output
  Block norms;      // [2, hidden], gradient format: of the attention's norm, of the MLP's
};

// layer_backward in two halves.

/// Computes layer_backward without gradients of weights.
WeightWork layer_input_gradient(const RankContext& context, const UnitView& weights,
    Recompute recompute, LayerActivations saved, Block& stream);
/// Adds to `gradients`; uses up `work`.
void layer_weight_gradients(const RankContext& context, const UnitView& gradients, WeightWork work);

}  // namespace shardbench
