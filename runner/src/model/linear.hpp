// SPDX-License-Identifier: Apache-2.0
// A layer's products, forward and backward, over values or in FP8. Weights are [out, in]:
// forward is x·Wᵀ, the gradient to x is dy·W, that to W is dyᵀ·x.
//
// In FP8 x and W are e4m3, dy is e5m2. Tensor cores of 9.0 read such operands along the sum
// alone, so that each product has its operands in the order that it needs.
#pragma once

#include "device/fp8_scaling.hpp"
#include "parallel/rank_context.hpp"

#include <optional>

namespace shardbench {

/// The tensors that lie together from `first` on, as one matrix.
struct LinearWeights {
  const UnitView& unit;
  TensorKind first;
  i64 in;
  i64 out;
  const void* data() const { return unit.at(first); }
};

/// How a product gets all rows of an operand of which sequence parallelism gives a rank a part.
enum class Gathering {
  none,       // a rank has all of them
  of_values,  // FullRows
  in_8_bits   // GatheredOperand
};
/// `others_read`: the gathered values, beside the product.
Gathering gathering_of(const RankContext& context, bool others_read = false);

/// An operand in FP8 of whose rows each tp rank makes its part: what is gathered is a byte for
/// each value, as Transformer Engine has it. It travels until take().
class GatheredOperand {
 public:
  /// This rank's part is there.
  GatheredOperand(const RankContext& context, Fp8Operand operand, Travel travel);
  /// Gathers this rank's rows in 8 bits, in both orders. Without a limit the ranks agree on a
  /// magnitude.
  GatheredOperand(const RankContext& context, const LinearWeights& w, ProductRole role,
      const void* own_rows, const Fp8Operand::Magnitude& magnitude, Travel travel);
  Fp8Operand take();

 private:
  void start(Travel travel);

  const RankContext& c_;
  Fp8Operand operand_;
  Token token_ = 0;
};

/// An operand of a product in FP8 that the kernel that makes its values leaves in 8 bits, or
/// whose magnitude it finds out, as Transformer Engine's norms and SwiGLU do: by delayed
/// scaling its scale is known before. Without FP8 it is nothing.
class MadeOperand {
 public:
  /// Keeps its magnitude in `magnitudes`. Under sequence parallelism a norm makes a part of its
  /// rows: rows gathered as values are read again.
  MadeOperand(const RankContext& context, const LinearWeights& w, ProductRole role,
      const Fp8Magnitudes& magnitudes, Gathering gathering);
  /// Form in which a kernel leaves `values` besides; empty: values alone.
  std::optional<Device::Quantization> left(const void* values);
  /// Takes the operand, once, when the values are there: all of them, or this rank's rows if the
  /// operand is gathered.
  Fp8Operand take(const void* values);

 private:
  void allocate();
  i64 own_rows() const;
  Device::Quantization filling(const void* values) const;

  const RankContext& c_;
  Gathering gathering_;
  Fp8Operand::Shape shape_{};
  ProductRole role_;
  Fp8Operand::Magnitude agreed_;
  float* own_ = nullptr;
  bool told_ = false;  // true: the maker got its orders for this form
  std::optional<Fp8Operand> made_;
};

/// How large x has been in forward.
Fp8Operand::Magnitude input_magnitude(
    const RankContext& context, const LinearWeights& w, const Fp8Magnitudes& magnitudes);
/// Gradients of a product's output of which a rank has a part: gathered in 8 bits.
Fp8Operand gathered_gradient(
    const RankContext& context, const LinearWeights& w, const void* own_rows);

/// y[tokens, out] = x[tokens, in] · wᵀ
void linear(
    const RankContext& context, void* y, const void* x, const LinearWeights& w, MadeOperand& made);
/// Multiplies values, without an operand in 8 bits.
void linear(const RankContext& context, void* y, const void* x, const LinearWeights& w);

/// The two products of backward; `dy` [tokens, out] stays until both are done.
class LinearGradients {
 public:
  /// `made`: dy, if its maker has left it in 8 bits.
  LinearGradients(const RankContext& context, const LinearWeights& w, const void* dy,
      MadeOperand* made = nullptr);
  LinearGradients(const RankContext& context, const LinearWeights& w, Fp8Operand dy);
  /// dx[tokens, in] = dy · w
  void to_input(void* dx) const;
  /// dw[out, in] += dyᵀ · x. In FP8 `magnitudes` has that of x since forward.
  void to_weights(
      const UnitView& gradients, const void* x, const Fp8Magnitudes& magnitudes = {}) const;
  /// Takes x in 8 bits.
  void to_weights(const UnitView& gradients, const Fp8Operand& x) const;

 private:
  const RankContext& context_;
  LinearWeights w_;
  const void* dy_;
  std::optional<Fp8Operand> dy8_;
};

}  // namespace shardbench
