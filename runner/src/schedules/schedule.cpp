// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.hpp"

#include "base/invariant.hpp"
#include "schedules/schedule_builder.hpp"

#include <algorithm>

namespace shardbench {

void ScheduleBuilder::exchange() {
  transfer(false);
}

void ScheduleBuilder::exchange_ahead() {
  transfer(true);
}

void ScheduleBuilder::transfer(bool ahead) {
  if (messages_.empty()) return;
  std::stable_partition(
      messages_.begin(), messages_.end(), [](const Message& m) { return m.side == Side::receive; });
  actions_.push_back({ActionKind::transfer, {}, std::exchange(messages_, {}), ahead});
}

void ScheduleBuilder::before(Side side, Flow flow, const Piece& piece) {
  const i64 stage = pipeline_.stage(rank_, piece.chunk);
  if (stage > 0) with(stage - 1, side, flow, piece);
}

void ScheduleBuilder::behind(Side side, Flow flow, const Piece& piece) {
  const i64 stage = pipeline_.stage(rank_, piece.chunk);
  if (stage + 1 < pipeline_.stages()) with(stage + 1, side, flow, piece);
}

void ScheduleBuilder::with(i64 stage, Side side, Flow flow, const Piece& piece) {
  const i64 peer = pipeline_.rank_of(stage);
  if (peer != rank_) messages_.push_back({side, flow, piece, peer});
}

bool ends_before(const Message& message, const Action& action) {
  if (action.kind != ActionKind::transfer) return message.piece == action.piece;
  return message.side == Side::send && !action.messages.empty() &&
      action.messages.front().flow == message.flow;
}

Pipeline pipeline_of(const Layout& layout) {
  return {layout.pp, layout.vpp, layout.grad_accum, layout.schedule == ScheduleKind::zb_v};
}

namespace {

std::vector<Action> list_of(ScheduleKind kind, const Pipeline& pipeline, i64 rank) {
  switch (kind) {
    case ScheduleKind::afab:
      return all_forward_all_backward(pipeline, rank);
    case ScheduleKind::zb_h1:
      return zero_bubble_h1(pipeline, rank);
    case ScheduleKind::zb_v:
      return zero_bubble_v(pipeline, rank);
    case ScheduleKind::one_f_one_b:
      break;
  }
  return pipeline.chunks == 1 ? one_forward_one_backward(pipeline, rank)
                              : interleaved(pipeline, rank);
}

/// Finished work on one piece.
struct PieceProgress {
  i64 forward = 0;
  i64 input = 0;   // gradients to the input
  i64 weight = 0;  // and to the weights
};

}  // namespace

std::vector<Action> make_schedule(ScheduleKind kind, const Pipeline& pipeline, i64 rank) {
  std::vector<Action> actions = list_of(kind, pipeline, rank);
  check_pieces(actions, pipeline, rank);
  return actions;
}

void check_pieces(const std::vector<Action>& actions, const Pipeline& pipeline, i64 rank) {
  const i64 pieces = pipeline.micro_batches * pipeline.chunks;
  std::vector<PieceProgress> done(static_cast<std::size_t>(pieces));
  for (const Action& action : actions) {
    if (action.kind == ActionKind::transfer) {
      for (const Message& m : action.messages)
        SHARDBENCH_INVARIANT(m.peer >= 0 && m.peer < pipeline.ranks && m.peer != rank &&
                (!action.ahead || m.flow == action.messages.front().flow),
            "a message goes to another rank of the pipeline", rank, m.peer, pipeline.ranks);
      continue;
    }
    const auto& [micro, chunk] = action.piece;
    SHARDBENCH_INVARIANT(
        micro >= 0 && micro < pipeline.micro_batches && chunk >= 0 && chunk < pipeline.chunks,
        "a piece is of this train step", rank, micro, chunk);
    PieceProgress& one = done[static_cast<std::size_t>(micro * pipeline.chunks + chunk)];
    const bool whole = action.kind == ActionKind::backward;
    one.forward += action.kind == ActionKind::forward ? 1 : 0;
    one.input += whole || action.kind == ActionKind::input_gradient ? 1 : 0;
    one.weight += whole || action.kind == ActionKind::weight_gradient ? 1 : 0;
    SHARDBENCH_INVARIANT(one.forward == 1 && one.weight <= one.input && one.input <= 1,
        "a piece goes forward once, then backward once", rank, micro, chunk, one.forward, one.input,
        one.weight);
  }
  for (std::size_t i = 0; i < done.size(); ++i)
    SHARDBENCH_INVARIANT(done[i].weight == 1, "each piece comes to its end", rank, i,
        done[i].forward, done[i].input, done[i].weight);
}

i64 most_in_flight(const std::vector<Action>& actions) {
  i64 held = 0;
  i64 most = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient) --held;
  }
  return most;
}

}  // namespace shardbench
