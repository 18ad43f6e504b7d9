// SPDX-License-Identifier: Apache-2.0
// AFAB: all forwards, then all backwards. 1F1B (arXiv 2104.04473): min(p − rank − 1, m)
// forwards ahead, then one forward and one backward in turn, then the remaining backwards.
// Backwards go in the order of forwards. Opposite messages to one neighbour are one transfer,
// so that two ranks that both send first do not wait for each other.
#include "schedules/schedule_builder.hpp"

#include <algorithm>

namespace shardbench {
namespace {

void forward_alone(ScheduleBuilder& b, const Piece& piece) {
  b.receive_input(piece);
  b.exchange();
  b.compute(ActionKind::forward, piece);
  b.send_output(piece);
  b.exchange();
}

void backward_alone(ScheduleBuilder& b, const Piece& piece, const BackwardOf& backward) {
  b.receive_gradient(piece);
  b.exchange();
  b.compute(backward.kind, piece);
  b.send_gradient(piece);
  b.exchange();
  backward.then(b, piece);
}

void nothing(ScheduleBuilder&, const Piece&) {}

}  // namespace

std::vector<Action> all_forward_all_backward(const Pipeline& pipeline, i64 rank) {
  ScheduleBuilder b(pipeline, rank);
  for (i64 i = 0; i < pipeline.micro_batches; ++i)
    forward_alone(b, {i});
  for (i64 i = 0; i < pipeline.micro_batches; ++i)
    backward_alone(b, {i}, {ActionKind::backward, nothing});
  return b.take();
}

void one_forward_one_backward(
    ScheduleBuilder& b, const Pipeline& pipeline, i64 rank, const BackwardOf& backward) {
  const i64 micro_batches = pipeline.micro_batches;
  const i64 ahead = std::min(pipeline.ranks - rank - 1, micro_batches);
  for (i64 i = 0; i < ahead; ++i)
    forward_alone(b, {i});
  if (ahead < micro_batches) b.receive_input({ahead});
  b.exchange();
  for (i64 i = ahead; i < micro_batches; ++i) {
    const Piece back{i - ahead};
    b.compute(ActionKind::forward, {i});
    b.send_output({i});
    b.receive_gradient(back);
    b.exchange();
    b.compute(backward.kind, back);
    const bool more = i + 1 < micro_batches;
    // The rank before computes the next input meanwhile, and needs the gradient after it.
    if (more) {
      backward.then(b, back);
      b.receive_input({i + 1});
    }
    b.send_gradient(back);
    b.exchange();
    if (!more) backward.then(b, back);
  }
  for (i64 back = micro_batches - ahead; back < micro_batches; ++back)
    backward_alone(b, {back}, backward);
}

std::vector<Action> one_forward_one_backward(const Pipeline& pipeline, i64 rank) {
  ScheduleBuilder b(pipeline, rank);
  one_forward_one_backward(b, pipeline, rank, {ActionKind::backward, nothing});
  return b.take();
}

}  // namespace shardbench
