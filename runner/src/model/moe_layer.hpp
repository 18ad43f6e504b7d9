// SPDX-License-Identifier: Apache-2.0
// The experts of a layer: routing, the exchange of rows over ep, and the experts' products.
//
// Each of the tp ranks has all tokens and a part of each expert, so that what experts make and
// the router's gradient are partial sums over tp.
#pragma once

#include "parallel/rank_context.hpp"

#include <vector>

namespace shardbench {

/// Rows of this rank by expert, and rows that are here for its own experts.
struct ExpertRows {
  std::vector<i64> sent;      // [experts]
  std::vector<i64> received;  // [ep, own experts]
};

/// What forward leaves for backward; "rows" are those that have come to this rank's experts.
struct ExpertActivations {
  ExpertRows counts;
  Block probabilities;  // [tokens, experts]
  Block weights;        // [tokens, experts_per_token]
  Block choices;        // the same, int32
  Block places;         // the same, int32
  Block rows;           // [rows, hidden]
  Block gate_up;        // [rows, 2·expert_ffn / tp]
  Block activated;      // [rows, expert_ffn / tp]
  Block outputs;        // [rows that left, hidden], partial over tp
};

/// x [tokens, hidden]; `weights` of a layer that has experts. Leaves the outputs.
void experts_forward(const RankContext& context, const UnitView& weights, const void* x,
                     ExpertActivations& saved);
/// sum [tokens, hidden] += each token's outputs by their weights.
void add_outputs(const RankContext& context, const ExpertActivations& saved, void* sum);

/// Backward in the order of the calls; uses up `saved`.
class ExpertsBackward {
 public:
  /// dy [tokens, hidden]: the gradient of add_outputs' sum, read at once.
  ExpertsBackward(const RankContext& context, const UnitView& weights,
                  const UnitView& gradients, ExpertActivations& saved, const void* dy);
  /// dx [tokens, hidden] +=, partial over tp. Adds to the experts' gradients.
  void add_input_gradient(void* dx);
  /// Adds to the router's gradient.
  void to_router(const void* x) const;

 private:
  void through_experts(Block& d_made);
  void through_router(void* dx);

  const RankContext& c_;
  const UnitView& w_;
  const UnitView& g_;
  ExpertActivations& s_;
  Block d_outputs_;
  Block d_weights_;
  Block d_logits_;
};

}  // namespace shardbench
