// SPDX-License-Identifier: Apache-2.0
#include "predict/layer_activations.hpp"

namespace shardsweep {
namespace {

// Rows of a feed-forward part. Without a gate, no product stands beside the activation's input and
// output.
double ffn_rows_of(const LayerShape& shape, const MemoryFamily& family) {
  return shape.matrices == 2 ? family.ffn_rows * 2 / 3 : family.ffn_rows;
}

// Rows that the outputs of a layer's two norms take until backward: the second one's is read by a
// router, too, which keeps it as it is.
double norms_kept(const Habits& habits, bool experts) {
  return experts ? 1 + habits.kept_input : 2 * habits.kept_input;
}

// Removes activations of modules that are computed again [Megatron-LM's --recompute-modules]. These
// are: outputs of two norms; all that a feed-forward part makes; the product between an expert's
// matrices; queries, keys and values that come from latents, and the latents' norms.
void drop_modules(LayerActivations& all, const LayerShape& shape, const Habits& habits,
    Modules modules, bool experts) {
  const auto& family = habits.family;
  const double ffn_rows = ffn_rows_of(shape, family);
  const double row = shape.element * shape.token_row();
  const double query = shape.element * shape.tokens() * shape.query;
  const double chosen = shape.element * shape.tokens() * shape.chosen * shape.expert_ffn;
  const double in_8_bits = 1 - habits.kept_input;
  if (modules.has(Module::layernorm)) all.kept_between -= norms_kept(habits, experts) * row;
  if (modules.has(Module::mlp) && !experts)
    all.kept_inside -= (ffn_rows - in_8_bits) * shape.element * shape.tokens() * shape.ffn;
  if (modules.has(Module::moe) && experts) {
    all.kept_inside -=
        (ffn_rows - in_8_bits) * (chosen + shape.element * shape.tokens() * shape.shared_ffn);
    all.kept_routed = 0;
  } else if (modules.has(Module::moe_act) && experts) {
    all.kept_inside -= habits.kept_input * chosen;
  }
  if (modules.has(Module::mla_up_proj)) {
    const double rows = shape.attention_rows(family.query_rows, family.key_rows);
    all.kept_inside -= query * (rows - shape.value_share);
    all.kept_between -= habits.kept_input * shape.element * shape.tokens() * shape.latents;
  }
}

// Keeps inputs of products in 8 bits: the outputs of norms, what goes into experts, and what the
// feed-forward part's last product multiplies. Attention and the router keep theirs as they are,
// and the output projection has a copy of its own.
void keep_inputs_in_8_bits(LayerActivations& all, const LayerShape& shape, const Habits& habits,
    double ffn, bool experts) {
  const double bytes = shape.element * shape.tokens();
  const double in_8_bits = 1 - habits.kept_input;
  all.between -= (2 - norms_kept(habits, experts)) * bytes * shape.hidden;
  all.between -= in_8_bits * bytes * shape.latents;
  all.inside += (1 - in_8_bits) * bytes * shape.query * shape.value_share - in_8_bits * ffn;
  if (experts) all.routed -= in_8_bits * bytes * shape.chosen * shape.hidden;
}

}  // namespace

double attention_bytes(const LayerShape& shape, const Habits& habits) {
  constexpr double gpt_probability_bytes = 5;
  const double rows = shape.seq * shape.batch * shape.heads;
  if (habits.flash) return 4 * rows;
  double bytes = habits.family.probability_bytes;
  if (bytes == 0) bytes = shape.element;
  return (habits.plain ? gpt_probability_bytes : bytes) * rows * shape.whole_seq;
}

LayerActivations layer_activations(const LayerShape& shape, const Habits& habits,
    Recompute recompute, double attention, bool experts) {
  const auto& family = habits.family;
  const double row = shape.element * shape.token_row();
  const double query = shape.element * shape.tokens() * shape.query;
  const double width = experts ? shape.shared_ffn + shape.chosen * shape.expert_ffn : shape.ffn;
  const double ffn = shape.element * shape.tokens() * width;
  // Latents and what their norms make of them; the shared key.
  const double latents = shape.element * shape.tokens() * shape.latents;
  const double shared_key = shape.element * shape.tokens() * shape.rope;
  LayerActivations all{family.between_rows * row + (2 * latents + shared_key),
      query * shape.attention_rows(family.query_rows, family.key_rows) +
          ffn_rows_of(shape, family) * ffn + attention,
      0, 0};
  if (experts) {
    // Probabilities, weights, choices and places; each row as it comes and as it goes.
    all.routed = shape.element * shape.tokens() * (shape.experts + shape.chosen) +
        2 * 4 * shape.tokens() * shape.chosen + 2 * shape.chosen * row;
  }
  if (habits.plain) {
    // Two norms' inputs and outputs and a dropout mask each (5 rows of 2 bytes), then Q, O, K,
    // V and GELU's input and output.
    all.between = 5 * row;
    all.inside = query * (2 + 2 * shape.kv_share) + 2 * ffn + attention;
  } else if (!habits.fused_norm) {
    all.between += 2 * family.norm_row_bytes * shape.token_row() +
        family.norm_row_bytes * shape.tokens() * shape.latents;
  }
  if (habits.kept_input < 1) keep_inputs_in_8_bits(all, shape, habits, ffn, experts);
  all.kept_between = all.between;
  all.kept_inside = all.inside;
  all.kept_routed = all.routed;
  if (recompute == Recompute::full) {
    all.kept_between = row;
    all.kept_inside = 0;
    all.kept_routed = 0;
  } else if (recompute == Recompute::selective) {
    if (family.selective == Selective::norms_and_product) {
      all.kept_between -= norms_kept(habits, experts) * row + habits.kept_input * latents;
      all.kept_inside -= habits.kept_input * ffn;
    } else if (family.selective == Selective::second_products) {
      // Four of seven products stay: Q, V, the gate and the last one; beside them the input and
      // attention.
      all.kept_between = 2 * row;
      all.kept_inside =
          query * (1 + shape.kv_share + shape.value_share) + ffn + (habits.flash ? attention : 0);
    } else if (!habits.flash) {
      all.kept_inside -= attention;
    }
  } else if (const auto modules = recomputed_modules(recompute); modules.any()) {
    drop_modules(all, shape, habits, modules, experts);
  }
  // A graph reads its layer's input and writes its output where they stood when it was made.
  if (habits.graphs) all.kept_between += 2 * row;
  return all;
}

}  // namespace shardsweep
