// SPDX-License-Identifier: Apache-2.0
// The experts of a layer: routing, the exchange of rows over ep, and the experts' products.
//
// Each of the tp ranks has all tokens and a part of each expert, so that what experts make and
// the router's gradient are partial sums over tp.
#pragma once

#include "communication/all_to_all.hpp"
#include "parallel/rank_context.hpp"

#include <optional>
#include <vector>

namespace shardbench {

/// Rows of this rank by expert, and rows that are here for its own experts.
struct ExpertRows {
  std::vector<i64> sent;      // [experts]
  std::vector<i64> received;  // [ep, own experts]
};

/// Rows that lie by the ranks that sent them, or by their experts: the places of one order in
/// the other, int32. Empty if both are the same.
struct RowOrders {
  Block by_expert;
  Block by_rank;
};

/// Routing that is known without data, the same in all layers and micro-batches, and computed once.
/// Pinned routing is known wholly; under a capacity the number of rows is. The meta device has no
/// logits: there a learned routing has the counts of a balanced one.
class KnownRouting {
 public:
  explicit KnownRouting(const RankContext& context);

  static bool exists(const RankContext& context);
  /// False: the counts alone, with the orders if they are sure.
  bool has_places() const { return static_cast<bool>(choices_); }
  const std::int32_t* choices() const;
  const std::int32_t* places() const;
  const std::int32_t* source() const;
  const ExpertRows& counts() const { return counts_; }
  const RowOrders& orders() const { return orders_; }

 private:
  ExpertRows counts_;
  Block choices_;  // [tokens, experts_per_token]
  Block places_;   // [tokens, experts_per_token]
  Block source_;   // [rows that leave]
  RowOrders orders_;
};

/// Activations that forward keeps for backward. "Rows" are those that have come to this rank's
/// experts, expert by expert.
struct ExpertActivations {
  ExpertRows counts;
  Block probabilities;  // [tokens, experts]
  Block weights;        // [tokens, experts_per_token]
  Block choices;        // [tokens, experts_per_token], int32; empty if routing is pinned
  Block places;         // [tokens, experts_per_token]; empty if routing is pinned
  RowOrders orders;     // empty if routing is pinned
  Block rows;           // [rows, hidden]
  Block gate_up;        // [rows, 2·expert_ffn / tp]
  Block activated;      // [rows, expert_ffn / tp]
  Block outputs;        // [rows that left, hidden], partial over tp
};

/// Rows on their way over ep, with the memory that they leave and come to.
class RowTravel {
 public:
  enum class Way { to_experts, to_tokens };
  /// Starts the travel; without ep the rows are there at once.
  RowTravel(
      const RankContext& context, const ExpertRows& counts, Block rows, Way way, MemoryClass kind);
  void wait();
  Block take();

 private:
  Block leaving_;
  Block arriving_;
  std::optional<Exchange> exchange_;
};

/// Forward in the order of the calls. Between them rows travel.
class ExpertsForward {
 public:
  /// x [tokens, hidden], read at once; `weights` of a layer that has experts.
  ExpertsForward(
      const RankContext& context, const UnitView& weights, const void* x, ExpertActivations& saved);
  void compute();
  /// Leaves the outputs.
  void finish();

 private:
  const RankContext& c_;
  const UnitView& w_;
  ExpertActivations& s_;
  std::optional<RowTravel> travel_;
};

/// sum [tokens, hidden] += each token's outputs by their weights.
void add_outputs(const RankContext& context, const ExpertActivations& saved, void* sum);

/// Backward in the order of the calls; uses up `saved`.
class ExpertsBackward {
 public:
  /// dy [tokens, hidden]: the gradient of add_outputs' sum, read at once. Rows travel.
  ExpertsBackward(const RankContext& context, const UnitView& weights, const UnitView& gradients,
      ExpertActivations& saved, const void* dy);
  /// Adds to the experts' gradients. Rows travel back.
  void compute();
  /// dx [tokens, hidden] +=, partial over tp.
  void add_input_gradient(void* dx);
  /// Adds to the router's gradient.
  void to_router(const void* x) const;

 private:
  void send(Block rows, RowTravel::Way way);
  void through_experts(Block& d_made);
  void through_router(void* dx);

  const RankContext& c_;
  const UnitView& w_;
  const UnitView& g_;
  ExpertActivations& s_;
  std::optional<RowTravel> travel_;
  Block d_weights_;
  Block d_logits_;
};

}  // namespace shardbench
