// SPDX-License-Identifier: Apache-2.0
#include "model/linear.hpp"

#include <utility>

namespace shardbench {
namespace {

using Order = Fp8Operand::Order;

constexpr Element element_of(ProductRole role) {
  return role == ProductRole::gradient ? Element::e5m2 : Element::e4m3;
}

Fp8Operand::Shape shape_of(const RankContext& c, const LinearWeights& w, ProductRole role) {
  return {role == ProductRole::weight ? w.out : c.extents.tokens,
          role == ProductRole::gradient ? w.out : w.in};
}

Fp8Operand::Magnitude agreed_on(const RankContext& c, const LinearWeights& w,
                                ProductRole role) {
  return c.fp8->magnitude(w.unit.unit->layer, w.first, role);
}

Fp8Operand in_fp8(const RankContext& c, const LinearWeights& w, ProductRole role,
                  const void* values, Order order, const Fp8Operand::Magnitude& magnitude) {
  Fp8Operand operand(c, MemoryClass::workspace, shape_of(c, w, role), element_of(role), order);
  operand.fill(c, values, magnitude);
  return operand;
}

/// The train step's, or some of its own where they are not kept.
class Fp8Weights {
 public:
  Fp8Weights(const RankContext& c, const LinearWeights& w, Order order)
      : kept_(c.fp8->kept_weights(w.unit.unit->layer, w.first, w.data(), {w.out, w.in})) {
    if (kept_ == nullptr)
      own_.emplace(in_fp8(c, w, ProductRole::weight, w.data(), order,
                          agreed_on(c, w, ProductRole::weight)));
  }
  const Fp8Operand& operand() const { return kept_ != nullptr ? *kept_ : *own_; }

 private:
  const Fp8Operand* kept_;
  std::optional<Fp8Operand> own_;
};

/// An operand's rows along the sum, in the order that is wanted.
struct Fp8Rows {
  const Fp8Operand& operand;
  const void* data;
  i64 count;
};

/// C[m, n] = A[m, k] · B[n, k]ᵀ
Gemm product_of(const Fp8Rows& a, const Fp8Rows& b, i64 k, void* c) {
  return {.transpose_b = Transpose::yes,
          .m = a.count,
          .n = b.count,
          .k = k,
          .a = a.data,
          .lda = k,
          .b = b.data,
          .ldb = k,
          .c = c,
          .ldc = b.count,
          .element_a = a.operand.element(),
          .element_b = b.operand.element(),
          .unit_a = a.operand.unit(),
          .unit_b = b.operand.unit()};
}

}  // namespace

MadeOperand::MadeOperand(const RankContext& c, const LinearWeights& w, ProductRole role,
                         const Fp8Magnitudes& magnitudes, bool whole)
    : c_(c), whole_(whole), role_(role) {
  if (c.fp8 == nullptr) return;
  shape_ = shape_of(c, w, role);
  agreed_ = agreed_on(c, w, role);
  if (agreed_.limit == nullptr) own_ = magnitudes.of(w.first, role);
}

std::optional<Device::Quantization> MadeOperand::left(const void* values) {
  if (c_.fp8 == nullptr || !whole_) return std::nullopt;
  // Before the first train step, too, whose scales are not known yet: what it takes of memory
  // is what all take.
  if (c_.fp8->delayed()) allocate();
  told_ = true;
  if (own_ == nullptr) return made_->filling(values, agreed_);
  return Device::Quantization{.values = values,
                              .rows = shape_.rows,
                              .columns = shape_.columns,
                              .element = element_of(role_),
                              .seen = own_};
}

Fp8Operand MadeOperand::take(const void* values) {
  if (!made_) allocate();
  const bool filled = told_ && own_ == nullptr;
  if (own_ != nullptr && !told_)
    c_.device.raise_amax(own_, values, shape_.rows * shape_.columns);
  if (!filled) made_->fill(c_, values, {own_ != nullptr ? own_ : agreed_.limit, agreed_.seen});
  Fp8Operand made = std::move(*made_);
  made_.reset();
  return made;
}

void MadeOperand::allocate() {
  made_.emplace(c_, MemoryClass::workspace, shape_, element_of(role_),
                role_ == ProductRole::input ? Order::straight : Order::both);
}

void linear(const RankContext& c, void* y, const void* x, const LinearWeights& w,
            MadeOperand& made) {
  if (c.fp8 == nullptr) {
    linear(c, y, x, w);
    return;
  }
  const Fp8Operand x8 = made.take(x);
  const Fp8Weights weights(c, w, Order::straight);
  const Fp8Operand& w8 = weights.operand();
  c.device.gemm(
      product_of({x8, x8.straight(), c.extents.tokens}, {w8, w8.straight(), w.out}, w.in, y));
}

void linear(const RankContext& c, void* y, const void* x, const LinearWeights& w) {
  c.device.gemm({.transpose_b = Transpose::yes,
                 .m = c.extents.tokens,
                 .n = w.out,
                 .k = w.in,
                 .a = x,
                 .lda = w.in,
                 .b = w.data(),
                 .ldb = w.in,
                 .c = y,
                 .ldc = w.out});
}

LinearGradients::LinearGradients(const RankContext& context, const LinearWeights& w,
                                 const void* dy, MadeOperand* made)
    : context_(context), w_(w), dy_(dy) {
  if (context.fp8 == nullptr) return;
  if (made != nullptr)
    dy8_.emplace(made->take(dy));
  else
    dy8_.emplace(in_fp8(context, w, ProductRole::gradient, dy, Order::both,
                        agreed_on(context, w, ProductRole::gradient)));
}

void LinearGradients::to_input(void* dx) const {
  if (dy8_) {
    const Fp8Weights weights(context_, w_, Order::transposed);
    const Fp8Operand& w8 = weights.operand();
    context_.device.gemm(product_of({*dy8_, dy8_->straight(), context_.extents.tokens},
                                    {w8, w8.transposed(), w_.in}, w_.out, dx));
    return;
  }
  context_.device.gemm({.m = context_.extents.tokens,
                        .n = w_.in,
                        .k = w_.out,
                        .a = dy_,
                        .lda = w_.out,
                        .b = w_.data(),
                        .ldb = w_.in,
                        .c = dx,
                        .ldc = w_.in});
}

void LinearGradients::to_weights(const UnitView& gradients, const void* x,
                                 const Fp8Magnitudes& magnitudes) const {
  if (dy8_) {
    const float* limit = agreed_on(context_, w_, ProductRole::input).limit;
    if (limit == nullptr) limit = magnitudes.of(w_.first, ProductRole::input);
    const Fp8Operand x8 =
        in_fp8(context_, w_, ProductRole::input, x, Order::transposed, {limit, nullptr});
    Gemm gemm = product_of({*dy8_, dy8_->transposed(), w_.out}, {x8, x8.transposed(), w_.in},
                           context_.extents.tokens, gradients.at(w_.first));
    gemm.accumulate = gradients.accumulate();
    gemm.gradient_output = true;
    context_.device.gemm(gemm);
    return;
  }
  context_.device.gemm({.transpose_a = Transpose::yes,
                        .m = w_.out,
                        .n = w_.in,
                        .k = context_.extents.tokens,
                        .a = dy_,
                        .lda = w_.out,
                        .b = x,
                        .ldb = w_.in,
                        .c = gradients.at(w_.first),
                        .ldc = w_.in,
                        .accumulate = gradients.accumulate(),
                        .gradient_output = true});
}

}  // namespace shardbench
