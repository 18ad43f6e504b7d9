// SPDX-License-Identifier: Apache-2.0
// The extents of one point as doubles, and the sizes of a layer's parts.
#pragma once

#include "predict/units.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

#include <algorithm>

namespace shardsweep {

/// The rank of a pipeline that has the model's head: the last one; the first where stages fold.
[[nodiscard]] inline std::int32_t head_stage(const Layout& layout) {
  return layout.schedule == Schedule::zb_v ? 0 : layout.pp - 1;
}

/// Parameters of matrices count without division by tp.
struct Shape {
  double layers, hidden, ffn, heads, kv_share, vocab;  // kv_share: g/a
  double query;                                        // values of all heads' queries
  double experts, chosen, expert_ffn, shared_ffn, dense_layers, ep, expert_replicas;
  double expert_tp;                                 // ranks that split each expert
  double seq, whole_seq, batch, tp, pp, dp, accum;  // seq: of a rank of cp
  double head;                                      // the stage that has it
  double first_layers, last_layers;                 // of the first and last stage; 0: even
  double element;
  Shape(const ModelSpec& model, const Point& point)
      : layers(real(model.layers)),
        hidden(real(model.hidden)),
        ffn(real(model.ffn)),
        heads(real(model.heads)),
        kv_share(real(model.kv_heads) / heads),
        vocab(real(model.vocab)),
        query(real(model.query_width())),
        experts(real(model.experts)),
        chosen(real(model.experts_per_token)),
        expert_ffn(real(model.expert_ffn)),
        shared_ffn(real(model.shared_experts * model.expert_ffn)),
        dense_layers(model.experts > 0 ? real(model.dense_layers) : layers),
        ep(point.layout.ep),
        expert_replicas(point.layout.expert_replicas()),
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
        element(real(bytes_of(point.dtype))) {}

  /// Without a gate a layer has two matrices of h f instead of three.
  [[nodiscard]] double layer_matrices(bool plain = false) const {
    return attention_matrices() + (plain ? 2 : 3) * hidden * ffn;
  }
  [[nodiscard]] double attention_matrices() const {
    return 2 * hidden * query * (1 + kv_share);
  }
  /// Of a layer with experts: what tp divides beside them, its router, and what a rank has of
  /// them.
  [[nodiscard]] double beside_experts() const {
    return attention_matrices() + 3 * hidden * shared_ffn;
  }
  [[nodiscard]] double router() const { return hidden * experts; }
  [[nodiscard]] double own_experts() const {
    return 3 * hidden * expert_ffn * experts / ep / expert_tp;
  }
  /// Ranks that divide the rows on their way to experts: where no tp splits an expert, each has
  /// those of its own part of the sequence. Below 1: ranks that split an expert have each
  /// other's rows.
  [[nodiscard]] double row_parts(bool sequence_parallel) const {
    return sequence_parallel || expert_tp > tp ? tp / expert_tp : 1;
  }
  /// Of the layers of a stage, those without experts: the first ones of the model.
  [[nodiscard]] double dense_of(double before, double here) const {
    return std::clamp(dense_layers - before, 0.0, here);
  }
  [[nodiscard]] double tokens() const { return seq * batch; }
  [[nodiscard]] double token_row() const { return seq * batch * hidden; }
};

}  // namespace shardsweep
