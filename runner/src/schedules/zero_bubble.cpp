// SPDX-License-Identifier: Apache-2.0
// ZB-H1 (arXiv 2401.10241): 1F1B whose backwards are cut in two. The gradient to the input goes
// on to the rank before as soon as it is there; the gradients of the weights are computed where
// the rank would wait. A rank leaves as many of them for later as there are ranks before it, so
// that all ranks hold as many micro-batches as the first one of 1F1B.
#include "schedules/schedule_builder.hpp"

namespace shardbench {

std::vector<Action> zero_bubble_h1(const Pipeline& pipeline, i64 rank) {
  ScheduleBuilder b(pipeline, rank);
  i64 done = 0;
  const auto weights_up_to = [&](i64 count) {
    for (; done < count; ++done)
      b.compute(ActionKind::weight_gradient, {done});
  };
  one_forward_one_backward(b, pipeline, rank,
      {ActionKind::input_gradient,
          [&](ScheduleBuilder&, const Piece& back) { weights_up_to(back.micro + 1 - rank); }});
  weights_up_to(pipeline.micro_batches);
  return b.take();
}

}  // namespace shardbench
