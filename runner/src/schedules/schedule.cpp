// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.hpp"

#include "schedules/schedule_builder.hpp"

#include <algorithm>

namespace shardbench {

void ScheduleBuilder::exchange() {
  if (messages_.empty()) return;
  std::stable_partition(messages_.begin(), messages_.end(),
                        [](const Message& m) { return m.side == Side::receive; });
  actions_.push_back({ActionKind::transfer, {}, std::exchange(messages_, {})});
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

Pipeline pipeline_of(const Layout& layout) {
  return {layout.pp, layout.vpp, layout.grad_accum, layout.schedule == ScheduleKind::zb_v};
}

std::vector<Action> make_schedule(ScheduleKind kind, const Pipeline& pipeline, i64 rank) {
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

i64 most_in_flight(const std::vector<Action>& actions) {
  i64 held = 0;
  i64 most = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient)
      --held;
  }
  return most;
}

}  // namespace shardbench
