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

/// y[tokens, out] = x[tokens, in] · wᵀ
void linear(const RankContext& context, void* y, const void* x, const LinearWeights& w);

/// The two products of backward; `dy` [tokens, out] stays until both are done.
class LinearGradients {
 public:
  LinearGradients(const RankContext& context, const LinearWeights& w, const void* dy);
  /// dx[tokens, in] = dy · w
  void to_input(void* dx) const;
  /// dw[out, in] += dyᵀ · x
  void to_weights(const UnitView& gradients, const void* x) const;

 private:
  const RankContext& context_;
  LinearWeights w_;
  const void* dy_;
  std::optional<Fp8Operand> dy8_;
};

}  // namespace shardbench
