// SPDX-License-Identifier: Apache-2.0
#include "model/linear.hpp"

namespace shardbench {
namespace {

using Order = Fp8Operand::Order;

Fp8Operand in_fp8(const RankContext& c, const LinearWeights& w, ProductRole role,
                  const void* values, Order order) {
  const i64 rows = role == ProductRole::weight ? w.out : c.extents.tokens;
  const i64 columns = role == ProductRole::gradient ? w.out : w.in;
  const Element element = role == ProductRole::gradient ? Element::e5m2 : Element::e4m3;
  Fp8Operand operand(c, MemoryClass::workspace, {rows, columns}, element, order);
  operand.fill(c, values, c.fp8->magnitude(w.unit.unit->layer, w.first, role));
  return operand;
}

/// The train step's, or some of its own where they are not kept.
class Fp8Weights {
 public:
  Fp8Weights(const RankContext& c, const LinearWeights& w, Order order)
      : kept_(c.fp8->kept_weights(w.unit.unit->layer, w.first, w.data(), {w.out, w.in})) {
    if (kept_ == nullptr) own_.emplace(in_fp8(c, w, ProductRole::weight, w.data(), order));
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

void linear(const RankContext& c, void* y, const void* x, const LinearWeights& w) {
  if (c.fp8 != nullptr) {
    const Fp8Operand x8 = in_fp8(c, w, ProductRole::input, x, Order::straight);
    const Fp8Weights weights(c, w, Order::straight);
    const Fp8Operand& w8 = weights.operand();
    c.device.gemm(
        product_of({x8, x8.straight(), c.extents.tokens}, {w8, w8.straight(), w.out}, w.in, y));
    return;
  }
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
                                 const void* dy)
    : context_(context), w_(w), dy_(dy) {
  if (context.fp8 != nullptr)
    dy8_.emplace(in_fp8(context, w, ProductRole::gradient, dy, Order::both));
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

void LinearGradients::to_weights(const UnitView& gradients, const void* x) const {
  if (dy8_) {
    const Fp8Operand x8 = in_fp8(context_, w_, ProductRole::input, x, Order::transposed);
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
