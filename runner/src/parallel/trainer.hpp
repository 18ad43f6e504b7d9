// SPDX-License-Identifier: Apache-2.0
// One rank's part of a train step: runs its stage's schedule, reduces gradients, updates
// weights.
#pragma once

#include "device/fp8_scaling.hpp"
#include "model/model_ends.hpp"
#include "model/transformer_layer.hpp"
#include "parallel/parameter_store.hpp"
#include "parallel/rank_context.hpp"
#include "schedules/schedule.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace shardbench {

/// Time spent since the trainer was made. The parts follow each other; the time between them
/// belongs to none.
struct PhaseTimes {
  double forward_s = 0;        ///< includes waits for tp and for gathered weights
  double backward_s = 0;       ///< includes waits for tp and for gathered weights
  double transfer_s = 0;       ///< activations and their gradients between stages
  double reduction_s = 0;      ///< rest of the gradients' reduction after backward
  double gradient_norm_s = 0;  ///< includes the wait for the slowest rank
  double optimizer_s = 0;      ///< includes the gathering of weights if it does not overlap (zero
                               ///< 1, 2)
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

  /// This rank's schedule, and another one in its place: tests leave actions out.
  const std::vector<Action>& schedule() const { return schedule_; }
  void follow(std::vector<Action> schedule) { schedule_ = std::move(schedule); }

  /// Ends what the last update has left to the next forward.
  void settle() { parameters_.settle(); }

  const ParameterStore& parameters() const { return parameters_; }
  i64 global_tokens() const;
  const PhaseTimes& times() const { return times_; }

 private:
  /// State of a micro-batch in flight on a chunk of this rank.
  struct InFlight {
    Block ids;       // first stage of the model
    Block arriving;  // received residual stream or gradient, sent ones until they have left
    Block leaving;
    std::vector<LayerActivations> layers;
    std::vector<WeightWork> work;  // the last layer's first
    /// Gradient of the loss to the last stage's output, or to the first one's embedded tokens.
    Block stream;
  };
  /// Units of a chunk: [first, end).
  struct UnitRange {
    std::size_t first;
    std::size_t end;
  };

  i64 stage_of(const Piece& piece) const { return pipeline_.stage(context_.at.pp, piece.chunk); }
  bool on_first_stage(const Piece& piece) const { return stage_of(piece) == 0; }
  bool on_last_stage(const Piece& piece) const { return stage_of(piece) + 1 == pipeline_.stages(); }
  InFlight& flight_of(const Piece& piece);
  Block token_block(MemoryClass kind, i64 step, i64 micro, i64 shift);
  UnitRange units_of_chunk(i64 chunk) const;
  void forward(i64 step, const Piece& piece);
  void backward(const Piece& piece);
  void input_gradient(const Piece& piece);
  void weight_gradient(const Piece& piece);
  void leave_to(i64 stage, const Piece& piece, Block stream);
  void head(i64 step, const Piece& piece, const Block& residual);
  /// True for a layer whose experts are the unit after it.
  bool has_experts(std::size_t unit) const;
  /// The unit after this one and its experts.
  std::size_t after(std::size_t unit) const { return unit + (has_experts(unit) ? 2 : 1); }
  void layer_backward_of(std::size_t unit, LayerActivations saved, Block& stream);
  std::size_t norm_unit() const;
  std::size_t table_unit() const;
  ParameterStore::MicroBatch place_of(const Piece& piece) const;
  void run(i64 step, const Action& action);
  void transfer(const Action& action);
  template <typename Which>
  void end_travel(Which which);
  void spend(double PhaseTimes::*phase, const Mark& start);

  RankContext context_;
  Communicator& pp_;
  Pipeline pipeline_;
  std::vector<Action> schedule_;
  u64 seed_;
  std::optional<Fp8Scaling> fp8_;
  std::optional<KnownRouting> routing_;
  ParameterStore parameters_;
  /// Sent ahead.
  struct Travelling {
    Message message;
    Token token;
  };
  std::vector<Travelling> travelling_;
  std::vector<InFlight> in_flight_;  // micro-batches of the first chunk, of the second, …
  /// Span between two marks in the device's work; its time is known once the device has passed
  /// both.
  struct TimedSpan {
    double PhaseTimes::*phase;
    Mark from;
    Mark to;
  };
  std::vector<TimedSpan> spent_;
  PhaseTimes times_;
};

}  // namespace shardbench
