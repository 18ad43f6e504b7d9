// SPDX-License-Identifier: Apache-2.0
#include "device/fp8_scaling.hpp"

#include "base/error.hpp"
#include "schedules/schedule.hpp"

#include <utility>

namespace shardbench {
namespace {

constexpr i64 products_of_layer = 4;
constexpr i64 history_steps = 16;
constexpr i64 float_bytes = sizeof(float);
// Numbers after an operand's values: its unit and its own amax.
constexpr i64 operand_floats = 2;
constexpr i64 vector_bytes = 16;

i64 product_index(TensorKind first) {
  switch (first) {
    case TensorKind::q:
      return 0;
    case TensorKind::o:
      return 1;
    case TensorKind::gate:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

Fp8Scaling::Fp8Scaling(const RankContext& context)
    : context_(context), delayed_(context.layout.fp8 == Scaling::delayed) {
  for (i64 chunk = 0; chunk < context.layout.vpp; ++chunk)
    chunks_.push_back(stage_layers(context.layout, context.shape.layers,
        pipeline_of(context.layout).stage(context.at.pp, chunk)));
  i64 layers = 0;
  for (const LayerRange& chunk : chunks_)
    layers += chunk.count;
  tensors_ = layers * products_of_layer * product_roles;
  if (!context.layout.shards_weights())
    kept_.resize(static_cast<std::size_t>(layers * products_of_layer));
  if (!delayed_) return;
  state_ = context.memory.allocate(
      MemoryClass::optimizer, (2 + history_steps) * tensors_ * float_bytes, "magnitudes for FP8");
  context.device.zero(state_.data(), state_.bytes());
}

float* Fp8Scaling::array(i64 index) const {
  return reinterpret_cast<float*>(state_.data()) + index * tensors_;
}

/// Index among the rank's layers, counted from 0.
i64 Fp8Scaling::place_of(i64 layer) const {
  i64 before = 0;
  for (const LayerRange& chunk : chunks_) {
    if (layer >= chunk.first && layer < chunk.first + chunk.count)
      return before + layer - chunk.first;
    before += chunk.count;
  }
  fail(ErrorClass::internal, "a rank has no such layer");
}

i64 Fp8Scaling::product_of(i64 layer, TensorKind first) const {
  return place_of(layer) * products_of_layer + product_index(first);
}

void Fp8Scaling::begin_step(i64 step) {
  step_ = step;
  for (KeptWeights& kept : kept_)
    kept.of_this_step = false;
}

Fp8Operand::Magnitude Fp8Scaling::magnitude(i64 layer, TensorKind first, ProductRole role) const {
  if (!delayed_) return {};
  const i64 at = product_of(layer, first) * product_roles + static_cast<i64>(role);
  return {step_ == 0 ? nullptr : array(0) + at, array(1) + at};
}

const Fp8Operand* Fp8Scaling::kept_weights(
    i64 layer, TensorKind first, const void* values, const Fp8Operand::Shape& shape) {
  if (kept_.empty()) return nullptr;
  KeptWeights& kept = kept_[static_cast<std::size_t>(product_of(layer, first))];
  if (!kept.weights)
    kept.weights.emplace(
        context_, MemoryClass::parameters, shape, Element::e4m3, Fp8Operand::Order::both);
  if (!std::exchange(kept.of_this_step, true))
    kept.weights->fill(context_, values, magnitude(layer, first, ProductRole::weight));
  return &*kept.weights;
}

void Fp8Scaling::end_step() {
  if (!delayed_) return;
  for (Communicator* group : {&context_.tp, &context_.dp})
    group->wait(group->all_reduce(array(1), tensors_, Dtype::fp32, Reduction::max));
  context_.device.keep_amax(
      {array(0), array(1), array(2), tensors_, history_steps, step_ % history_steps});
}

Fp8Operand::Fp8Operand(
    const RankContext& c, MemoryClass kind, const Shape& shape, Element element, Order order)
    : shape_(shape), element_(element), order_(order) {
  const i64 bytes = round_up(shape.rows * shape.columns, vector_bytes);
  transposed_at_ = order == Order::both ? bytes : 0;
  floats_at_ = transposed_at_ + bytes;
  block_ = c.memory.allocate(kind, floats_at_ + operand_floats * float_bytes, "operand in FP8");
}

void Fp8Operand::fill(const RankContext& c, const void* values, const Magnitude& magnitude) {
  const float* limit = magnitude.limit;
  if (limit == nullptr) {
    float* amax = own_amax();
    c.device.zero(amax, float_bytes);
    c.device.raise_amax(amax, values, shape_.rows * shape_.columns);
    limit = amax;
  }
  c.device.quantize(filling(values, {limit, magnitude.seen}));
}

Device::Quantization Fp8Operand::filling(const void* values, const Magnitude& magnitude) const {
  return {.values = values,
      .rows = shape_.rows,
      .columns = shape_.columns,
      .element = element_,
      .straight = order_ == Order::transposed ? nullptr : block_.data(),
      .transposed = order_ == Order::straight ? nullptr : block_.data() + transposed_at_,
      .limit = magnitude.limit,
      .unit = floats(),
      .seen = magnitude.seen};
}

Device::Quantization Fp8Operand::filling_part(
    const void* values, const Magnitude& magnitude, i64 index, i64 parts) const {
  Device::Quantization part = filling(values, magnitude);
  part.rows = shape_.rows / parts;
  part.straight = block_.data() + index * part.rows * part.columns;
  part.transposed = nullptr;
  return part;
}

void Fp8Operand::turn(const RankContext& c) const {
  if (order_ == Order::both)
    c.device.transpose_8_bits(
        block_.data() + transposed_at_, straight(), shape_.rows, shape_.columns);
}

Fp8Magnitudes::Fp8Magnitudes(const RankContext& c)
    : block_(c.memory.allocate(
          MemoryClass::activations, (products_of_layer + 1) * float_bytes, "magnitudes for FP8")) {
  c.device.zero(block_.data(), block_.bytes());
}

float* Fp8Magnitudes::of(TensorKind first, ProductRole role) const {
  check(role == ProductRole::input || first == TensorKind::gate,
      "inputs have magnitudes, and the gradient of gate and up");
  const i64 at = role == ProductRole::input ? product_index(first) : products_of_layer;
  return reinterpret_cast<float*>(block_.data()) + at;
}

}  // namespace shardbench
