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

Fp8Operand::Magnitude agreed_on(const RankContext& c, const LinearWeights& w, ProductRole role) {
  return c.fp8->magnitude(w.unit.unit->layer, w.first, role);
}

Fp8Operand in_fp8(const RankContext& c, const LinearWeights& w, ProductRole role,
    const void* values, Order order, const Fp8Operand::Magnitude& magnitude) {
  Fp8Operand operand(c, MemoryClass::workspace, shape_of(c, w, role), element_of(role), order);
  operand.fill(c, values, magnitude);
  return operand;
}

/// The train step's, or some of its own if they are not kept.
class Fp8Weights {
 public:
  Fp8Weights(const RankContext& c, const LinearWeights& w, Order order)
      : kept_(c.fp8->kept_weights(w.unit.unit->layer, w.first, w.data(), {w.out, w.in})) {
    if (kept_ == nullptr)
      own_.emplace(
          in_fp8(c, w, ProductRole::weight, w.data(), order, agreed_on(c, w, ProductRole::weight)));
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

Gathering gathering_of(const RankContext& c, bool others_read) {
  if (!c.sequence_parallel()) return Gathering::none;
  return c.fp8 == nullptr || others_read ? Gathering::of_values : Gathering::in_8_bits;
}

namespace {

/// The largest of all tp ranks.
void agree(const RankContext& c, float* amax) {
  c.tp.wait(c.tp.all_reduce(amax, 1, Dtype::fp32, Reduction::max));
}

}  // namespace

GatheredOperand::GatheredOperand(const RankContext& c, Fp8Operand operand, Travel travel)
    : c_(c), operand_(std::move(operand)) {
  start(travel);
}

GatheredOperand::GatheredOperand(const RankContext& c, const LinearWeights& w, ProductRole role,
    const void* own_rows, const Fp8Operand::Magnitude& magnitude, Travel travel)
    : c_(c),
      operand_(c, MemoryClass::workspace, shape_of(c, w, role), element_of(role), Order::both) {
  Fp8Operand::Magnitude agreed = magnitude;
  if (agreed.limit == nullptr) {
    float* amax = operand_.own_amax();
    c.device.zero(amax, sizeof(float));
    const Fp8Operand::Shape shape = shape_of(c, w, role);
    c.device.raise_amax(amax, own_rows, c.extents.rows * shape.columns);
    agree(c, amax);
    agreed.limit = amax;
  }
  c.device.quantize(operand_.filling_part(own_rows, agreed, c.tp.rank(), c.tp.size()));
  start(travel);
}

/// Bytes, in the format of values: gathering does not look into them.
void GatheredOperand::start(Travel travel) {
  const i64 bytes = operand_.count() / c_.tp.size();
  auto* all = static_cast<std::byte*>(operand_.straight());
  const UnderProducts under(c_.tp, travel);
  token_ = c_.tp.all_gather(
      all + c_.tp.rank() * bytes, all, bytes / dtype_size(c_.value_dtype()), c_.value_dtype());
}

Fp8Operand GatheredOperand::take() {
  c_.tp.wait(std::exchange(token_, 0));
  operand_.turn(c_);
  return std::move(operand_);
}

Fp8Operand::Magnitude input_magnitude(
    const RankContext& c, const LinearWeights& w, const Fp8Magnitudes& magnitudes) {
  const float* limit = agreed_on(c, w, ProductRole::input).limit;
  return {limit != nullptr ? limit : magnitudes.of(w.first, ProductRole::input), nullptr};
}

Fp8Operand gathered_gradient(const RankContext& c, const LinearWeights& w, const void* own_rows) {
  return GatheredOperand(
      c, w, ProductRole::gradient, own_rows, agreed_on(c, w, ProductRole::gradient), Travel::alone)
      .take();
}

MadeOperand::MadeOperand(const RankContext& c, const LinearWeights& w, ProductRole role,
    const Fp8Magnitudes& magnitudes, Gathering gathering)
    : c_(c), gathering_(gathering), role_(role) {
  if (c.fp8 == nullptr) return;
  shape_ = shape_of(c, w, role);
  agreed_ = agreed_on(c, w, role);
  if (agreed_.limit == nullptr) own_ = magnitudes.of(w.first, role);
}

/// Arguments for filling by the limit that is known by then.
Device::Quantization MadeOperand::filling(const void* values) const {
  const Fp8Operand::Magnitude magnitude{own_ != nullptr ? own_ : agreed_.limit, agreed_.seen};
  return gathering_ == Gathering::in_8_bits
      ? made_->filling_part(values, magnitude, c_.tp.rank(), c_.tp.size())
      : made_->filling(values, magnitude);
}

std::optional<Device::Quantization> MadeOperand::left(const void* values) {
  if (c_.fp8 == nullptr || gathering_ == Gathering::of_values) return std::nullopt;
  // Allocate before the first train step too, though its scales are not known yet: all steps take
  // the same memory.
  if (c_.fp8->delayed()) allocate();
  told_ = true;
  if (own_ == nullptr) return filling(values);
  return Device::Quantization{.values = values,
      .rows = own_rows(),
      .columns = shape_.columns,
      .element = element_of(role_),
      .seen = own_};
}

i64 MadeOperand::own_rows() const {
  return gathering_ == Gathering::in_8_bits ? c_.extents.rows : shape_.rows;
}

Fp8Operand MadeOperand::take(const void* values) {
  if (!made_) allocate();
  const bool filled = told_ && own_ == nullptr;
  if (own_ != nullptr && !told_) c_.device.raise_amax(own_, values, own_rows() * shape_.columns);
  const bool gathers = gathering_ == Gathering::in_8_bits;
  if (own_ != nullptr && gathers) agree(c_, own_);
  if (!filled) c_.device.quantize(filling(values));
  Fp8Operand made = std::move(*made_);
  made_.reset();
  return gathers ? GatheredOperand(c_, std::move(made), Travel::alone).take() : std::move(made);
}

void MadeOperand::allocate() {
  made_.emplace(c_, MemoryClass::workspace, shape_, element_of(role_),
      role_ == ProductRole::input ? Order::straight : Order::both);
}

void linear(
    const RankContext& c, void* y, const void* x, const LinearWeights& w, MadeOperand& made) {
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

LinearGradients::LinearGradients(const RankContext& context, const LinearWeights& w, Fp8Operand dy)
    : context_(context), w_(w), dy_(nullptr), dy8_(std::move(dy)) {}

LinearGradients::LinearGradients(
    const RankContext& context, const LinearWeights& w, const void* dy, MadeOperand* made)
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

void LinearGradients::to_weights(
    const UnitView& gradients, const void* x, const Fp8Magnitudes& magnitudes) const {
  if (dy8_) {
    to_weights(gradients,
        in_fp8(context_, w_, ProductRole::input, x, Order::transposed,
            input_magnitude(context_, w_, magnitudes)));
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

void LinearGradients::to_weights(const UnitView& gradients, const Fp8Operand& x8) const {
  Gemm gemm = product_of({*dy8_, dy8_->transposed(), w_.out}, {x8, x8.transposed(), w_.in},
      context_.extents.tokens, gradients.at(w_.first));
  gemm.accumulate = gradients.accumulate();
  gemm.gradient_output = true;
  context_.device.gemm(gemm);
}

}  // namespace shardbench
