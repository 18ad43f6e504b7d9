// SPDX-License-Identifier: Apache-2.0
// One rank's part of a train step: runs its stage's schedule, reduces gradients, updates
// weights.
#pragma once

#include "fp8_scaling.hpp"
#include "model_ends.hpp"
#include "parameter_store.hpp"
#include "rank_context.hpp"
#include "schedule.hpp"
#include "transformer_layer.hpp"

#include <optional>
#include <vector>

namespace shardbench {

/// Time spent since the trainer was made. The parts follow each other; the time between them
/// belongs to none.
struct PhaseTimes {
  double forward_s = 0;        ///< with the waits for tp and for gathered weights
  double backward_s = 0;       ///< likewise
  double transfer_s = 0;       ///< activations and their gradients between stages
  double reduction_s = 0;      ///< what is left of the gradients' reduction after backward
  double gradient_norm_s = 0;  ///< with the wait for the slowest rank
  double optimizer_s = 0;      ///< without overlap, with the gathering of weights (zero 1, 2)
};

class Trainer {
 public:
  /// Allocates and initialises this rank's weights, gradients and optimizer state. References
  /// outlive the trainer.
  Trainer(const RankContext& context, const Groups& groups, u64 seed);

  /// Forward, backward and reduction over the global batch of `step`; gradients are complete
  /// afterwards. The host is ahead of the device.
  void compute_gradients(i64 step);
  /// This rank's share of the sum of token losses since the last call: their sum over the dp
  /// ranks of the last stage, divided by global_tokens(), is the loss (0 on other stages).
  /// Waits for the device.
  double take_loss() { return context_.device.take_loss(); }
  /// AdamW with the gradients computed last, their norm clipped to 1; `step` counts from 0.
  /// Returns the norm before clipping, the same on all ranks; the device has ended its work.
  double update(i64 step);

  /// Ends what the last update has left to the next forward.
  void settle() { parameters_.settle(); }

  const ParameterStore& parameters() const { return parameters_; }
  i64 global_tokens() const;
  const PhaseTimes& times() const { return times_; }

 private:
  /// What one micro-batch in flight holds on this stage.
  struct InFlight {
    Block ids;       // first stage
    Block arriving;  // received residual stream or gradient, sent ones until they have left
    Block leaving;
    std::vector<LayerActivations> layers;
    Block stream;  // gradient of the loss to this stage's output
  };

  bool first_stage() const { return context_.at.pp == 0; }
  bool last_stage() const { return context_.at.pp == context_.layout.pp - 1; }
  Block token_block(MemoryClass kind, i64 step, i64 micro, i64 shift);
  void forward(i64 step, i64 micro);
  void backward(i64 micro);
  void head(i64 step, i64 micro, const Block& residual);
  std::size_t norm_unit() const;
  std::size_t table_unit() const;
  ParameterStore::MicroBatch place_of(i64 micro) const;
  void transfer(const Action& action);
  void spend(double PhaseTimes::*phase, const Mark& start);

  RankContext context_;
  Communicator& pp_;
  u64 seed_;
  std::optional<Fp8Scaling> fp8_;
  ParameterStore parameters_;
  std::vector<InFlight> in_flight_;
  /// Marked as it is given to the device, told when the device has done it.
  struct Spent {
    double PhaseTimes::*phase;
    Mark from;
    Mark to;
  };
  std::vector<Spent> spent_;
  PhaseTimes times_;
};

}  // namespace shardbench
