// SPDX-License-Identifier: Apache-2.0
#include "model/transformer_layer.hpp"

#include "model/context_attention.hpp"
#include "model/linear.hpp"

#include <optional>
#include <utility>

namespace shardbench {
namespace {

/// `made`: as the operand of the next product; null: it has been one already.
Block normed(const RankContext& c, const Block& x, const void* w, std::string_view what,
    MadeOperand* made = nullptr) {
  const Extents& e = c.extents;
  Block y = c.values(MemoryClass::activations, e.rows * e.hidden, what);
  const auto left = made != nullptr ? made->left(y.data()) : std::nullopt;
  if (left)
    c.device.rms_norm_to_8_bits(y.data(), x.data(), w, e.rows, e.hidden, *left);
  else
    c.device.rms_norm(y.data(), x.data(), w, e.rows, e.hidden);
  return y;
}

/// Width of the SwiGLU that every token goes through, on this rank; 0: there is none.
i64 dense_width(const RankContext& c, const UnitView& w) {
  return c.shape.dense_width(w.unit->layer) / c.layout.tp;
}

Block activated_rows(
    const RankContext& c, const Block& gate_up, i64 width, MadeOperand* made = nullptr) {
  const Extents& e = c.extents;
  Block y = c.values(MemoryClass::activations, e.tokens * width, "activated rows");
  const auto left = made != nullptr ? made->left(y.data()) : std::nullopt;
  if (left)
    c.device.swiglu_to_8_bits(y.data(), gate_up.data(), e.tokens, width, *left);
  else
    c.device.swiglu(y.data(), gate_up.data(), e.tokens, width);
  return y;
}

/// An input whose maker sees all of it, or a norm's.
MadeOperand input_of(const RankContext& c, const LinearWeights& w, const LayerActivations& s,
    Gathering gathering = Gathering::none) {
  return {c, w, ProductRole::input, s.magnitudes, gathering};
}

/// All rows as values, unless the product's operand is gathered in 8 bits: then this rank's.
class RowsOfProduct {
 public:
  RowsOfProduct(const RankContext& c, const Block& rows, Gathering gathering) : rows_(rows) {
    if (gathering != Gathering::in_8_bits) full_.emplace(c, rows);
  }
  const void* data() { return full_ ? full_->data() : rows_.data(); }

 private:
  const Block& rows_;
  std::optional<FullRows> full_;
};

/// Gradients of a product whose output's gradient is a part of the stream.
LinearGradients gradients_of_stream(
    const RankContext& c, const LinearWeights& w, RowsOfProduct& dy, Gathering gathering) {
  if (gathering != Gathering::in_8_bits) return {c, w, dy.data()};
  return {c, w, gathered_gradient(c, w, dy.data())};
}

/// stream += partial sums of a branch, in a block of its own.
Block add_branch(const RankContext& c, Block partial, const Block& stream, std::string_view what) {
  Block sum = sum_to_rows(c, std::move(partial), MemoryClass::activations, what);
  c.device.add(sum.data(), sum.data(), stream.data(), c.extents.rows * c.extents.hidden);
  return sum;
}

/// A sum over TP in progress is a transient of [tokens, hidden] under sequence parallelism, and
/// becomes the residual itself without.
Block partial_sum(const RankContext& c) {
  const MemoryClass kind =
      c.sequence_parallel() ? MemoryClass::workspace : MemoryClass::activations;
  return c.values(kind, c.extents.tokens * c.extents.hidden, "partial sum");
}

void rotate(const RankContext& c, const Block& qkv, Rotation rotation) {
  const AttentionShape& a = c.extents.attention;
  if (c.layout.cp == 1)
    c.device.rope(qkv.data(), a, rotation);
  else
    c.device.rope_at(qkv.data(), a, positions_of(c), rotation);
}

/// The attention core: of q, k, v as they are.
void attend(const RankContext& c, LayerActivations& s, Attending attending) {
  const Extents& e = c.extents;
  const AttentionShape& a = e.attention;
  s.attended =
      c.values(MemoryClass::activations, e.tokens * a.heads * a.head_dim, "attended values");
  s.lse = c.statistics(MemoryClass::activations, e.tokens * a.heads, "log-sum-exp");
  if (c.layout.cp > 1) {
    context_attention(c, s.attended, s.lse, s.qkv, attending);
    return;
  }
  const Block work = c.memory.allocate(
      MemoryClass::workspace, c.device.attention_workspace_bytes(a), "attention scores");
  c.device.attention(s.attended.data(), s.lse.data(), s.qkv.data(), work.data(), a);
}

/// Parts of a layer that forward drops and backward computes again.
struct DroppedParts {
  bool norms_and_product;
  bool core;
};

DroppedParts dropped_by(const RankContext& c, Recompute recompute) {
  if (recompute == Recompute::none) return {false, false};
  const bool core =
      recompute == Recompute::selective && c.layout.habits.selective == Selective::attention;
  return {!core, core};
}

/// Returns the branch, which is not added to the stream yet.
Block attention_forward(
    const RankContext& c, const UnitView& w, Recompute recompute, LayerActivations& s) {
  const Extents& e = c.extents;
  const AttentionShape& a = e.attention;
  if (c.fp8 != nullptr) s.magnitudes = Fp8Magnitudes(c);
  const LinearWeights to_qkv{w, TensorKind::q, e.hidden, a.row()};
  const Gathering gathering = gathering_of(c);
  MadeOperand into_qkv = input_of(c, to_qkv, s, gathering);
  s.norm1 = normed(c, s.residual_in, w.at(TensorKind::attention_norm), "norm 1", &into_qkv);
  s.qkv = c.values(MemoryClass::activations, e.tokens * a.row(), "q, k, v");
  {
    RowsOfProduct full(c, s.norm1, gathering);
    linear(c, s.qkv.data(), full.data(), to_qkv, into_qkv);
  }
  const DroppedParts dropped = dropped_by(c, recompute);
  if (dropped.norms_and_product) s.norm1.reset();
  rotate(c, s.qkv, Rotation::forward);
  const i64 width = a.heads * a.head_dim;
  attend(c, s, Attending::first);
  Block partial = partial_sum(c);
  const LinearWeights out{w, TensorKind::o, width, e.hidden};
  MadeOperand into_out = input_of(c, out, s);
  linear(c, partial.data(), s.attended.data(), out, into_out);
  if (dropped.core) {
    s.attended.reset();
    s.lse.reset();
  }
  return sum_to_rows(c, std::move(partial), MemoryClass::activations, "residual");
}

/// The stream and `branch` are added as the norm reads them: in the branch's place.
Block mlp_forward(const RankContext& c, const UnitView& w, Recompute recompute, Block branch,
    LayerActivations& s) {
  const Extents& e = c.extents;
  s.residual_mid = std::move(branch);
  s.norm2 = c.values(MemoryClass::activations, e.rows * e.hidden, "norm 2");
  const i64 width = dense_width(c, w);
  const LinearWeights gate{w, TensorKind::gate, e.hidden, 2 * width};
  const Gathering gathering = gathering_of(c, w.experts != nullptr);
  MadeOperand into_gate = input_of(c, gate, s, gathering);
  const Device::AddedNorm norm{s.residual_mid.data(), s.norm2.data(), s.residual_mid.data(),
      s.residual_in.data(), w.at(TensorKind::mlp_norm)};
  if (const auto left = into_gate.left(s.norm2.data()))
    c.device.add_rms_norm_to_8_bits(norm, e.rows, e.hidden, *left);
  else
    c.device.add_rms_norm(norm, e.rows, e.hidden);
  if (width > 0)
    s.gate_up = c.values(MemoryClass::activations, e.tokens * 2 * width, "gate and up");
  // Rows of experts travel under the products that all tokens go through, as the profile has
  // it.
  std::optional<ExpertsForward> experts;
  const ExpertOverlap overlap = c.layout.habits.expert_overlap;
  {
    RowsOfProduct full(c, s.norm2, gathering);
    if (w.experts != nullptr) experts.emplace(c, w, full.data(), s.experts);
    if (experts && overlap != ExpertOverlap::both_ways) experts->compute();
    if (experts && overlap == ExpertOverlap::none) experts->finish();
    if (width > 0) linear(c, s.gate_up.data(), full.data(), gate, into_gate);
  }
  if (experts && overlap == ExpertOverlap::both_ways) experts->compute();
  const DroppedParts dropped = dropped_by(c, recompute);
  if (dropped.norms_and_product) s.norm2.reset();
  const LinearWeights down{w, TensorKind::down, width, e.hidden};
  MadeOperand into_down = input_of(c, down, s);
  if (width > 0) s.activated = activated_rows(c, s.gate_up, width, &into_down);
  Block partial = partial_sum(c);
  if (width > 0)
    linear(c, partial.data(), s.activated.data(), down, into_down);
  else
    c.device.zero(partial.data(), partial.bytes());
  if (experts && overlap != ExpertOverlap::none) experts->finish();
  if (experts) add_outputs(c, s.experts, partial.data());
  if (dropped.norms_and_product) {
    s.activated.reset();
    s.experts.activated.reset();
  }
  return add_branch(c, std::move(partial), s.residual_mid, "residual");
}

void* norm_of(const RankContext& c, const WeightWork& work, TensorKind kind) {
  const i64 first = kind == TensorKind::mlp_norm ? c.extents.hidden : 0;
  return work.norms.data() + c.gradient_bytes(first);
}

/// Place of the weights' gradients from a backward: in the unit, or as work for later.
struct WeightSide {
  const UnitView* now = nullptr;
  WeightWork* later = nullptr;
};

/// Keeps `block` where it is needed later, else gives it back.
void leave(const WeightSide& side, Block WeightWork::*place, Block& block) {
  if (side.later != nullptr)
    side.later->*place = std::move(block);
  else
    block.reset();
}

void leave_copy(
    const RankContext& c, const WeightSide& side, Block WeightWork::*place, const Block& stream) {
  if (side.later == nullptr) return;
  Block copy = c.values(
      MemoryClass::activations, c.extents.rows * c.extents.hidden, "gradient for the weights");
  c.device.copy(copy.data(), stream.data(), stream.bytes());
  side.later->*place = std::move(copy);
}

/// The last part of each branch's backward: through the norm into the stream. `dy`: gradient of
/// the norm's output.
struct NormSite {
  const Block& x;
  const UnitView& w;
  const WeightSide& side;
  TensorKind norm;
};

void norm_backward(const RankContext& c, const Block& dy, const NormSite& at, Block& stream) {
  const UnitView* now = at.side.now;
  void* dw = now != nullptr ? now->at(at.norm) : norm_of(c, *at.side.later, at.norm);
  if (now == nullptr || now->fresh) c.device.zero(dw, c.gradient_bytes(c.extents.hidden));
  c.device.rms_norm_backward({stream.data(), dw, at.x.data(), at.w.at(at.norm), dy.data()},
      c.extents.rows, c.extents.hidden);
}

/// Backward of a product whose input is a norm's output: the gradient to that output, summed
/// over tp while the weights' gradient is computed. out 0: there is no product, but experts.
struct NormedProduct {
  const Block& normed;
  const void* dy;  // [tokens, out]
  TensorKind first;
  i64 out;
  const Fp8Magnitudes& magnitudes;
  MadeOperand* made = nullptr;  // dy
};

Block product_backward(const RankContext& c, const UnitView& w, const WeightSide& side,
    const NormedProduct& p, ExpertsBackward* experts = nullptr) {
  const i64 hidden = c.extents.hidden;
  const LinearWeights weights{w, p.first, hidden, p.out};
  std::optional<FullRows> full;
  std::optional<GatheredOperand> full8;
  if (side.now != nullptr && gathering_of(c, experts != nullptr) == Gathering::in_8_bits)
    full8.emplace(c, weights, ProductRole::input, p.normed.data(),
        input_magnitude(c, weights, p.magnitudes), Travel::under_products);
  else if (side.now != nullptr)
    full.emplace(c, p.normed, Travel::under_products);
  Block partial = c.values(MemoryClass::workspace, c.extents.tokens * hidden, "partial gradient");
  const LinearGradients gradients(c, weights, p.dy, p.made);
  if (experts != nullptr) experts->compute();
  if (p.out > 0)
    gradients.to_input(partial.data());
  else
    c.device.zero(partial.data(), partial.bytes());
  if (experts != nullptr) experts->add_input_gradient(partial.data());
  RowSum sum(c, std::move(partial), MemoryClass::workspace, "norm gradient");
  if (full8) gradients.to_weights(*side.now, full8->take());
  if (full && p.out > 0) gradients.to_weights(*side.now, full->data(), p.magnitudes);
  if (full && experts != nullptr) experts->to_router(full->data());
  return sum.take();
}

void mlp_backward(const RankContext& c, const UnitView& w, const WeightSide& side,
    LayerActivations& s, Block& stream) {
  const Extents& e = c.extents;
  const i64 width = dense_width(c, w);
  if (!s.activated && width > 0) s.activated = activated_rows(c, s.gate_up, width);
  leave_copy(c, side, &WeightWork::d_out, stream);
  MadeOperand d_gate_up(c, {w, TensorKind::gate, e.hidden, 2 * width}, ProductRole::gradient,
      s.magnitudes, Gathering::none);
  std::optional<ExpertsBackward> experts;
  {
    Block d_activated =
        c.values(MemoryClass::workspace, e.tokens * width, "gradient of activated rows");
    const Gathering gathering = gathering_of(c, w.experts != nullptr);
    RowsOfProduct dy(c, stream, gathering);
    if (w.experts != nullptr) experts.emplace(c, w, *side.now, s.experts, dy.data());
    if (width > 0) {
      {
        const LinearGradients gradients =
            gradients_of_stream(c, {w, TensorKind::down, width, e.hidden}, dy, gathering);
        gradients.to_input(d_activated.data());
        if (side.now != nullptr) gradients.to_weights(*side.now, s.activated.data(), s.magnitudes);
      }
      leave(side, &WeightWork::activated, s.activated);
      if (const auto left = d_gate_up.left(s.gate_up.data()))
        c.device.swiglu_backward_to_8_bits(
            s.gate_up.data(), d_activated.data(), e.tokens, width, *left);
      else
        c.device.swiglu_backward(s.gate_up.data(), d_activated.data(), e.tokens, width);
    }
  }
  if (!s.norm2) s.norm2 = normed(c, s.residual_mid, w.at(TensorKind::mlp_norm), "norm 2");
  const Block dy = product_backward(c, w, side,
      {s.norm2, s.gate_up.data(), TensorKind::gate, 2 * width, s.magnitudes, &d_gate_up},
      experts ? &*experts : nullptr);
  experts.reset();
  s.experts = {};
  leave(side, &WeightWork::norm2, s.norm2);
  leave(side, &WeightWork::d_gate_up, s.gate_up);
  norm_backward(c, dy, {s.residual_mid, w, side, TensorKind::mlp_norm}, stream);
  s.residual_mid.reset();
}

void core_backward(
    const RankContext& c, const Block& d_qkv, const Block& d_attended, const LayerActivations& s) {
  if (c.layout.cp > 1) {
    context_attention_backward(c, {d_qkv, d_attended, s.qkv, s.attended, s.lse});
    return;
  }
  const AttentionShape& a = c.extents.attention;
  const Block work = c.memory.allocate(
      MemoryClass::workspace, c.device.attention_workspace_bytes(a), "attention scores");
  c.device.attention_backward(
      {d_qkv.data(), d_attended.data(), s.qkv.data(), s.attended.data(), s.lse.data(), work.data()},
      a);
}

/// Gradient of q, k, v as projected: through attention and back through the rotation.
Block qkv_gradient(const RankContext& c, const UnitView& w, const WeightSide& side,
    LayerActivations& s, const Block& stream) {
  const Extents& e = c.extents;
  const AttentionShape& a = e.attention;
  const i64 width = a.heads * a.head_dim;
  if (!s.attended) attend(c, s, Attending::again);
  leave_copy(c, side, &WeightWork::d_mid, stream);
  Block d_attended =
      c.values(MemoryClass::workspace, e.tokens * width, "gradient of attended values");
  {
    RowsOfProduct dy(c, stream, gathering_of(c));
    const LinearGradients gradients =
        gradients_of_stream(c, {w, TensorKind::o, width, e.hidden}, dy, gathering_of(c));
    gradients.to_input(d_attended.data());
    if (side.now != nullptr) gradients.to_weights(*side.now, s.attended.data(), s.magnitudes);
  }
  const MemoryClass kind = side.now != nullptr ? MemoryClass::workspace : MemoryClass::activations;
  Block d_qkv = c.values(kind, e.tokens * a.row(), "gradient of q, k, v");
  core_backward(c, d_qkv, d_attended, s);
  rotate(c, d_qkv, Rotation::backward);
  return d_qkv;
}

void attention_backward(const RankContext& c, const UnitView& w, const WeightSide& side,
    LayerActivations& s, Block& stream) {
  Block d_qkv = qkv_gradient(c, w, side, s, stream);
  s.qkv.reset();
  leave(side, &WeightWork::attended, s.attended);
  s.lse.reset();
  if (!s.norm1) s.norm1 = normed(c, s.residual_in, w.at(TensorKind::attention_norm), "norm 1");
  const Block dy = product_backward(
      c, w, side, {s.norm1, d_qkv.data(), TensorKind::q, c.extents.attention.row(), s.magnitudes});
  leave(side, &WeightWork::norm1, s.norm1);
  leave(side, &WeightWork::d_qkv, d_qkv);
  norm_backward(c, dy, {s.residual_in, w, side, TensorKind::attention_norm}, stream);
}

void both_backward(const RankContext& c, const UnitView& w, const WeightSide& side,
    Recompute recompute, LayerActivations& saved, Block& stream) {
  if (recompute == Recompute::full) (void)layer_forward(c, w, Recompute::none, saved);
  mlp_backward(c, w, side, saved, stream);
  attention_backward(c, w, side, saved, stream);
}

/// One norm's gradient, which the first half has made.
void add_norm(const RankContext& c, const UnitView& g, TensorKind kind, const WeightWork& work) {
  const i64 hidden = c.extents.hidden;
  if (g.fresh)
    c.device.copy(g.at(kind), norm_of(c, work, kind), c.gradient_bytes(hidden));
  else
    c.device.accumulate(g.at(kind), norm_of(c, work, kind), hidden);
}

/// One product's, of gathered rows of its input and of the gradient of what it has made.
struct LeftProduct {
  TensorKind first;
  i64 in;
  i64 out;
};

void add_product(
    const RankContext& c, const UnitView& g, const LeftProduct& p, const void* dy, const void* x) {
  LinearGradients(c, {g, p.first, p.in, p.out}, dy).to_weights(g, x);
}

}  // namespace

Block layer_forward(const RankContext& context, const UnitView& weights, Recompute recompute,
    LayerActivations& saved) {
  Block branch = attention_forward(context, weights, recompute, saved);
  if (recompute == Recompute::full) {
    saved.qkv.reset();
    saved.attended.reset();
    saved.lse.reset();
  }
  Block out = mlp_forward(context, weights, recompute, std::move(branch), saved);
  if (recompute == Recompute::full) {
    saved.gate_up.reset();
    saved.residual_mid.reset();
    saved.experts = {};
    saved.magnitudes = {};
  }
  return out;
}

void layer_backward(const RankContext& context, const UnitView& weights, const UnitView& gradients,
    Recompute recompute, LayerActivations saved, Block& stream) {
  both_backward(context, weights, {.now = &gradients}, recompute, saved, stream);
}

WeightWork layer_input_gradient(const RankContext& context, const UnitView& weights,
    Recompute recompute, LayerActivations saved, Block& stream) {
  WeightWork work;
  work.norms = context.statistics(
      MemoryClass::activations, 2 * context.extents.hidden, "gradients of a layer's norms");
  both_backward(context, weights, {.later = &work}, recompute, saved, stream);
  return work;
}

void layer_weight_gradients(const RankContext& c, const UnitView& g, WeightWork work) {
  const Extents& e = c.extents;
  const i64 width = e.attention.heads * e.attention.head_dim;
  {
    FullRows dy(c, work.d_out);
    add_product(c, g, {TensorKind::down, e.ffn, e.hidden}, dy.data(), work.activated.data());
  }
  {
    FullRows x(c, work.norm2);
    add_product(c, g, {TensorKind::gate, e.hidden, 2 * e.ffn}, work.d_gate_up.data(), x.data());
  }
  {
    FullRows dy(c, work.d_mid);
    add_product(c, g, {TensorKind::o, width, e.hidden}, dy.data(), work.attended.data());
  }
  FullRows x(c, work.norm1);
  add_product(c, g, {TensorKind::q, e.hidden, e.attention.row()}, work.d_qkv.data(), x.data());
  add_norm(c, g, TensorKind::mlp_norm, work);
  add_norm(c, g, TensorKind::attention_norm, work);
}

}  // namespace shardbench
