// SPDX-License-Identifier: Apache-2.0
// Tensors in 8 bits for the layers' products. Each tensor has one scale on each rank: current
// scaling takes it from the tensor itself, delayed scaling from the largest magnitude that all
// ranks of tp and dp saw in the last train steps. The first train step has none before it and
// scales as current scaling does.
//
// A rank that has its weights whole puts them into 8 bits once per train step, in both orders,
// as Transformer Engine does; gathered ones (ZeRO 3) go with the memory that they lie in.
#pragma once

#include "device/fp8.hpp"
#include "parallel/rank_context.hpp"

#include <optional>
#include <vector>

namespace shardbench {

/// Role of a tensor in a layer's product y = x·Wᵀ.
enum class ProductRole { input, weight, gradient };
constexpr i64 product_roles = 3;

/// One operand in 8 bits, in the orders that products read.
class Fp8Operand {
 public:
  enum class Order { straight, transposed, both };
  struct Shape {
    i64 rows;
    i64 columns;
  };
  /// How large its values are.
  struct Magnitude {
    const float* limit = nullptr;  // null: found out by reading them
    float* seen = nullptr;         // raised to what they reach; null: nobody asks
  };
  /// Makes an empty operand.
  Fp8Operand(const RankContext& context, MemoryClass kind, const Shape& shape, Element element,
      Order order);
  /// Fills it from `values` in the context's format.
  void fill(const RankContext& context, const void* values, const Magnitude& magnitude);
  /// Arguments that fill it from `values`, by a limit.
  Device::Quantization filling(const void* values, const Magnitude& magnitude) const;
  /// Part `index` of `parts`, straight: one after the other has so many of its rows.
  Device::Quantization filling_part(
      const void* values, const Magnitude& magnitude, i64 index, i64 parts) const;
  /// Makes the second order, once all parts are there.
  void turn(const RankContext& context) const;

  Element element() const { return element_; }
  i64 count() const { return shape_.rows * shape_.columns; }
  void* straight() const { return block_.data(); }
  const void* transposed() const { return block_.data() + transposed_at_; }
  const float* unit() const { return floats(); }
  /// Place for the largest magnitude, if it is kept nowhere else.
  float* own_amax() const { return floats() + 1; }

 private:
  float* floats() const { return reinterpret_cast<float*>(block_.data() + floats_at_); }

  Shape shape_;
  Element element_;
  Order order_;
  i64 transposed_at_;
  i64 floats_at_;
  Block block_;
};

class Fp8Scaling {
 public:
  /// `context` outlives it.
  explicit Fp8Scaling(const RankContext& context);

  void begin_step(i64 step);
  bool delayed() const { return delayed_; }
  /// Delayed: the ranks agree on what they saw.
  void end_step();

  /// Place of the magnitudes of a tensor in a layer's product, whose weights begin with `first`;
  /// null under current scaling.
  Fp8Operand::Magnitude magnitude(i64 layer, TensorKind first, ProductRole role) const;
  /// A product's weights in both orders, made when a train step first asks for them. Null: they
  /// are not kept.
  const Fp8Operand* kept_weights(
      i64 layer, TensorKind first, const void* values, const Fp8Operand::Shape& shape);

 private:
  struct KeptWeights {
    std::optional<Fp8Operand> weights;
    bool of_this_step = false;
  };

  float* array(i64 index) const;
  i64 place_of(i64 layer) const;
  i64 product_of(i64 layer, TensorKind first) const;

  const RankContext& context_;
  bool delayed_;
  std::vector<LayerRange> chunks_;
  i64 tensors_;
  i64 step_ = 0;
  std::vector<KeptWeights>
      kept_;     // kept weights of the rank's products; empty if weights come and go
  Block state_;  // limits, seen, history: `tensors_` floats each, the last for each step kept
};

/// The largest magnitudes of a layer's inputs in one micro-batch, and of the gradient that
/// SwiGLU's backward makes: from the kernel that makes the values to the last product of them.
/// Delayed scaling needs them in the first train step alone.
class Fp8Magnitudes {
 public:
  Fp8Magnitudes() = default;
  /// All 0.
  explicit Fp8Magnitudes(const RankContext& context);
  float* of(TensorKind first, ProductRole role) const;

 private:
  Block block_;
};

}  // namespace shardbench
