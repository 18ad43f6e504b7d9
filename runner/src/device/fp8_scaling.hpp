// SPDX-License-Identifier: Apache-2.0
// Tensors in 8 bits for the layers' products. Each tensor has one scale on each rank: current
// scaling takes it from the tensor itself, delayed scaling from the largest magnitude that all
// ranks of tp and dp saw in the last train steps. The first train step has none before it and
// scales as current scaling does.
#pragma once

#include "device/fp8.hpp"
#include "parallel/rank_context.hpp"

#include <vector>

namespace shardbench {

/// What a tensor is to a layer's product y = x·Wᵀ.
enum class ProductRole { input, weight, gradient };
constexpr i64 product_roles = 3;

class Fp8Scaling {
 public:
  /// `context` outlives it.
  explicit Fp8Scaling(const RankContext& context);

  void begin_step(i64 step) { step_ = step; }
  /// Delayed: the ranks agree on what they saw.
  void end_step();

  /// Where a tensor's magnitudes are kept; null where current scaling needs none.
  struct Tensor {
    const float* limit = nullptr;  // null: the tensor's own
    float* seen = nullptr;
  };
  /// Of a layer's product, whose weights begin with `first`.
  Tensor tensor(i64 layer, TensorKind first, ProductRole role) const;

 private:
  float* array(i64 index) const;
  i64 place_of(i64 layer) const;

  const RankContext& context_;
  bool delayed_;
  std::vector<LayerRange> chunks_;
  i64 tensors_;
  i64 step_ = 0;
  Block state_;  // limits, seen, history: `tensors_` floats each, the last for each step kept
};

/// One operand in 8 bits, in the orders that products read; its memory is workspace.
class Fp8Operand {
 public:
  enum class Order { straight, transposed, both };
  struct Source {
    const void* values;
    i64 rows;
    i64 columns;
  };
  Fp8Operand(const RankContext& context, const Source& source, Element element, Order order,
             const Fp8Scaling::Tensor& tensor);

  Element element() const { return element_; }
  const void* straight() const { return block_.data(); }
  const void* transposed() const { return block_.data() + transposed_at_; }
  const float* unit() const;

 private:
  Element element_;
  i64 transposed_at_;
  i64 floats_at_;
  Block block_;
};

}  // namespace shardbench
