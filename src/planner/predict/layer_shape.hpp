// SPDX-License-Identifier: Apache-2.0
// The extents of one point as doubles, and the sizes of a layer's parts.
#pragma once

#include "predict/units.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

#include <algorithm>
#include <cstdint>

namespace shardsweep {

/// The rank of a pipeline that has the model's head: the last one; the first where stages fold.
[[nodiscard]] inline std::int32_t head_stage(const Layout& layout) {
  return layout.schedule == Schedule::zb_v ? 0 : layout.pp - 1;
}

/// Parameters of multi-head latent attention in one layer [arXiv 2405.04434, section 2.1];
/// zeros of plain attention. With latents of r (keys and values) and c (queries) values, a
/// heads, q and v values of all heads' queries and values, u of a key that all heads share:
struct LatentAttention {
  std::int64_t down = 0;    ///< h (c + r + u): rows to latents; each rank of tp has all of it
  std::int64_t norms = 0;   ///< c + r
  std::int64_t up = 0;      ///< c q + r (q - a u + v): latents to heads; h q without a latent
  std::int64_t output = 0;  ///< h v
};
[[nodiscard]] inline LatentAttention latent_attention(const ModelSpec& model) {
  if (!model.is_latent()) return {};
  const auto query = model.query_width();
  const auto from = model.q_lora_rank > 0 ? model.q_lora_rank : model.hidden;
  const auto heads = query - model.heads * model.qk_rope_head_dim + model.value_width();
  return {model.hidden * (model.q_lora_rank + model.kv_lora_rank + model.qk_rope_head_dim),
      model.q_lora_rank + model.kv_lora_rank, from * query + model.kv_lora_rank * heads,
      model.hidden * model.value_width()};
}

/// Matrices of a state-space or linear-attention mixer.
[[nodiscard]] inline std::int64_t state_mixer(const ModelSpec& model) {
  return model.hidden * (3 * model.state_width + 2 * model.state_keys);
}

/// Pairs of tokens that attention multiplies, as a share of all causal ones: a window of w of s
/// tokens leaves 2 w / s - (w / s)^2 of its layers'.
[[nodiscard]] inline double attended_share(const ModelSpec& model, double seq_len) {
  const double windowed = real(model.with_window());
  if (windowed == 0 || real(model.window) >= seq_len) return 1;
  const double seen = real(model.window) / seq_len;
  return 1 - windowed / real(model.with_attention()) * (1 - seen) * (1 - seen);
}

/// Parameters of a layer that predicts later tokens (MTP), beside its transformer layer. A
/// projection makes one row of the states and the next token's embedding, with norms before and
/// after.
[[nodiscard]] inline std::int64_t mtp_projection(const ModelSpec& model) {
  return 2 * model.hidden * model.hidden;
}
[[nodiscard]] inline std::int64_t mtp_norms(const ModelSpec& model) {
  return 3 * model.hidden;
}

/// Layers of each stage between the first and the last one.
[[nodiscard]] inline double layers_of_middle(const ModelSpec& model, const Layout& layout) {
  const MiddleStages middle(
      model.layers, layout.pp, layout.first_stage_layers, layout.last_stage_layers);
  return real(middle.layers) / real(middle.stages);
}

/// Shape of a layer. Its counts of parameters are of whole matrices, not of one tp rank's part.
struct LayerShape {
  double layers, hidden, ffn, heads, kv_share, vocab;  // kv_share: g/a
  double query;                                        // values of all heads' queries
  bool latent;                                         // attention
  double value_share;                                  // values of values per one of queries
  double latents, rope;                                // values of latents, of the shared key
  double down, norms, up, output;                      // see LatentAttention
  double mtp, projection, mtp_norms;  // layers that predict later tokens, and of each of them
  double experts, chosen, expert_ffn, shared_ffn, ep, expert_replicas;
  double dense_layers, dense_share;                 // the first ones; of those behind them
  double matrices;                                  // matrices of a feed-forward part
  double expert_tp;                                 // ranks that split each expert
  double seq, whole_seq, batch, tp, pp, dp, accum;  // seq: of a rank of cp
  double head;                                      // the stage that has it
  double first_layers, last_layers;                 // layers of the first and last stage; 0: even
  double middle_layers;                             // layers of each other stage, if the first or
                                                    // last is told its own
  double element;
  LayerShape(const ModelSpec& model, const Point& point) : LayerShape(model, point, model.vocab) {}
  /// Takes another number of entries of the vocabulary, as one that pads it.
  LayerShape(const ModelSpec& model, const Point& point, std::int64_t entries)
      : LayerShape(model, point, entries, latent_attention(model)) {}
  LayerShape(const ModelSpec& model, const Point& point, std::int64_t entries,
      const LatentAttention& parts)
      : layers(real(model.layers)),
        hidden(real(model.hidden)),
        ffn(real(model.ffn)),
        heads(real(model.heads)),
        kv_share(real(model.kv_heads) / heads),
        vocab(real(entries)),
        query(real(model.query_width())),
        latent(model.is_latent()),
        value_share(real(model.value_width()) / query),
        latents(real(model.q_lora_rank + model.kv_lora_rank)),
        rope(real(model.qk_rope_head_dim)),
        down(real(parts.down)),
        norms(real(parts.norms)),
        up(real(parts.up)),
        output(real(parts.output)),
        mtp(real(model.mtp_layers)),
        projection(real(mtp_projection(model))),
        mtp_norms(real(shardsweep::mtp_norms(model))),
        experts(real(model.experts)),
        chosen(real(model.experts_per_token)),
        expert_ffn(real(model.expert_ffn)),
        shared_ffn(real(model.shared_width())),
        ep(point.layout.ep),
        expert_replicas(point.layout.expert_replicas()),
        dense_layers(model.experts > 0 ? real(model.dense_layers) : layers),
        dense_share(
            dense_layers < layers ? 1 - real(model.with_experts()) / (layers - dense_layers) : 0),
        matrices(real(model.matrices_of_ffn())),
        expert_tp(point.layout.expert_shards()),
        seq(real(point.seq_len) / point.layout.cp),
        whole_seq(point.seq_len),
        batch(point.layout.micro_batch),
        tp(point.layout.tp),
        pp(point.layout.pp),
        dp(point.layout.data_ranks()),
        accum(point.layout.grad_accum),
        head(head_stage(point.layout)),
        first_layers(point.layout.first_stage_layers),
        last_layers(point.layout.last_stage_layers),
        middle_layers(point.layout.has_uneven_stages() ? layers_of_middle(model, point.layout) : 0),
        element(real(bytes_of(point.dtype))) {}

  [[nodiscard]] double layer_matrices(bool plain = false) const {
    return attention_matrices() + (plain ? 2 : matrices) * hidden * ffn;
  }
  [[nodiscard]] double attention_matrices() const {
    return latent ? up + output : 2 * hidden * query * (1 + kv_share);
  }
  /// Parameters of a layer that every rank of tp has: norms, and products that make latents.
  [[nodiscard]] double whole_parameters() const { return 2 * hidden + norms + down; }
  /// Keys and values of all heads, in units of their queries.
  [[nodiscard]] double key_values() const { return latent ? 1 + value_share : 2 * kv_share; }
  /// Rows that attention keeps, in units of its queries: `query_rows` as large as Q, of them one is
  /// its output; `key_rows` as large as K.
  [[nodiscard]] double attention_rows(double query_rows, double key_rows) const {
    if (!latent) return query_rows + key_rows * kv_share;
    return query_rows - 1 + value_share + key_rows / 2 * key_values();
  }
  /// Parameters of a layer with experts: those that tp divides beside them, its router, and a
  /// rank's share of the experts.
  [[nodiscard]] double beside_experts() const {
    return attention_matrices() + matrices * hidden * shared_ffn;
  }
  [[nodiscard]] double router() const { return hidden * experts; }
  [[nodiscard]] double own_experts() const {
    return matrices * hidden * expert_ffn * experts / ep / expert_tp;
  }
  /// Ranks that divide the rows on their way to experts: if no tp splits an expert, each has
  /// those of its own part of the sequence. Below 1: ranks that split an expert have each
  /// other's rows.
  [[nodiscard]] double row_parts(bool sequence_parallel) const {
    return sequence_parallel || expert_tp > tp ? tp / expert_tp : 1;
  }
  /// Layers of a stage without experts: the first ones of the model, and those between layers with
  /// experts, which lie evenly.
  [[nodiscard]] double dense_of(double before, double here) const {
    const double first = std::clamp(dense_layers - before, 0.0, here);
    return first + dense_share * (here - first);
  }
  [[nodiscard]] double tokens() const { return seq * batch; }
  [[nodiscard]] double token_row() const { return seq * batch * hidden; }
};

}  // namespace shardsweep
