// SPDX-License-Identifier: Apache-2.0
// What a rank keeps for backward, as it goes through its actions.
#include "formulas_stage.hpp"

#include <algorithm>

namespace shardbench {

LayerValues layer_values(const Stage& s) {
  const ModelShape& m = s.model;
  const i64 t = s.layout.tp;
  const i64 norm = s.rows * m.hidden;
  const i64 qkv = s.tokens * (m.heads + 2 * m.kv_heads) * m.head_dim() / t;
  const i64 attended = s.tokens * m.hidden / t;
  const i64 lse = s.tokens * m.heads / t;
  const i64 activated = s.tokens * m.ffn / t;
  // Residual in and mid, both norms; gate and up, and their product.
  return {4 * norm + qkv + attended + lse + 3 * activated, norm, activated, attended + lse};
}

namespace {

/// Values that a piece keeps until its backward, and those that it needs for a moment besides.
struct PieceValues {
  i64 kept;  // kept values of one layer
  i64 forward;
  i64 backward;
};

PieceValues piece_values(const Stage& s) {
  const LayerValues v = layer_values(s);
  const i64 stream = s.rows * s.model.hidden;
  const i64 partial = s.sp ? 0 : stream;
  const bool core = s.layout.habits.selective == Selective::attention;
  if (s.layout.recompute == Recompute::none) return {v.all, stream, 0};
  if (s.layout.recompute == Recompute::selective && core) return {v.all - v.core, stream, 0};
  // Made again where more was given back before.
  if (s.layout.recompute == Recompute::selective)
    return {v.all - 2 * v.norm - v.activated, std::max(stream, v.activated + partial),
        std::max(v.activated, v.norm)};
  const i64 mlp = v.norm + 3 * v.activated + partial;
  const i64 qkv = v.all - 4 * v.norm - v.core - 3 * v.activated;
  return {v.norm, std::max(mlp, qkv + v.core + stream), v.all - v.norm + stream};
}

/// Peak of class activations: what is held as the rank goes through its actions, in bytes.
class ActivationWalk {
 public:
  explicit ActivationWalk(const Stage& s)
      : s_(s), values_(piece_values(s)), stream_(s.rows * s.model.hidden * s.e) {}

  i64 peak() {
    for (const Action& action : s_.actions)
      step(action);
    return peak_;
  }

 private:
  void step(const Action& action) {
    end_travel(action);
    if (action.kind == ActionKind::transfer) return transfer(action);
    if (action.kind == ActionKind::forward) return forward(action.piece);
    if (action.kind == ActionKind::input_gradient) return input_gradient(action.piece);
    if (action.kind == ActionKind::weight_gradient) return weight_gradient(action.piece);
    backward(action.piece);
  }
  void hold(i64 bytes) {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  void note(i64 beside) { peak_ = std::max(peak_, held_ + beside); }

  void transfer(const Action& action) {
    for (const Message& m : action.messages)
      if (m.side == Side::receive) hold(stream_);
    for (const Message& m : action.messages) {
      if (m.side == Side::receive) continue;
      if (action.ahead)
        leaving_.push_back(m);
      else
        held_ -= stream_;
    }
  }
  /// Releases messages that were sent ahead, once they have ended.
  void end_travel(const Action& action) {
    const auto ended = [&](const Message& m) { return ends_before(m, action); };
    held_ -= stream_ * std::count_if(leaving_.begin(), leaving_.end(), ended);
    leaving_.erase(std::remove_if(leaving_.begin(), leaving_.end(), ended), leaving_.end());
  }
  i64 kept(const Piece& piece) const {
    return s_.layers(piece) * values_.kept * s_.e + (s_.begins(piece) ? s_.tokens * 4 : 0);
  }
  /// Runs a forward, whose first layer takes what arrived as input.
  void forward(const Piece& piece) {
    hold(kept(piece) - (s_.begins(piece) ? 0 : stream_));
    note(values_.forward * s_.e);
    // The output; on the last stage beside it the gradient that takes its place.
    if (s_.ends(piece)) note(2 * stream_);
    hold(stream_);
  }
  void backward(const Piece& piece) {
    note(values_.backward * s_.e);
    held_ -= kept(piece) + (s_.begins(piece) ? stream_ : 0);
  }

  /// Bytes that a layer keeps for its weights' gradients: as much as for backward except the
  /// log-sum-exp. Gradients of the streams take their place, and its norms' gradients come on top.
  i64 work() const {
    const LayerValues v = layer_values(s_);
    return (v.all - lse() + 2 * s_.model.hidden) * s_.e;
  }
  i64 lse() const { return s_.tokens * s_.model.heads / s_.layout.tp; }

  void input_gradient(const Piece& piece) {
    const LayerValues v = layer_values(s_);
    const i64 qkv = v.all - 4 * v.norm - v.core - 3 * v.activated;
    const bool core = s_.layout.habits.selective == Selective::attention;
    const bool drops_core = s_.layout.recompute == Recompute::selective && core;
    const bool drops_norms = s_.layout.recompute == Recompute::selective && !core;
    for (i64 layer = 0; layer < s_.layers(piece); ++layer) {
      const i64 before = held_;
      const auto add = [&](i64 values) { hold(values * s_.e); };
      add(2 * s_.model.hidden);
      if (s_.layout.recompute == Recompute::full) {
        add(v.all - v.norm);
        note(stream_);
      }
      if (drops_norms) add(v.activated);
      add(v.norm);                   // a copy of the gradient to the layer's output
      if (drops_norms) add(v.norm);  // the MLP's
      add(-v.norm);                  // the residual in the middle
      if (drops_core) add(v.core);
      add(v.norm);  // a copy of the gradient to it
      add(qkv);
      if (drops_norms) add(v.norm - qkv - lse());  // the attention's, where q, k, v were
      held_ = before + work() - values_.kept * s_.e;
    }
  }
  void weight_gradient(const Piece& piece) {
    held_ -= s_.layers(piece) * work() + (s_.begins(piece) ? s_.tokens * 4 + stream_ : 0);
  }

  const Stage& s_;
  PieceValues values_;
  i64 stream_;
  std::vector<Message> leaving_;
  i64 held_ = 0;
  i64 peak_ = 0;
};

}  // namespace

i64 activation_peak(const Stage& s) {
  return ActivationWalk(s).peak();
}

}  // namespace shardbench
