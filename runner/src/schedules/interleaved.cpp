// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B (arXiv 2104.04473, section 2.2): micro-batches go through the chunks of a
// rank in groups of p, the first chunk first, backwards from the last chunk. A rank is
// 2(p − rank − 1) + (v − 1)p forwards ahead.
//
// A slot is a forward, a backward, or one of each. After a forward its output leaves and the
// next slot's input comes, under the slot's backward; after a backward gradients do so, under
// the next slot's forward, as Megatron-LM has it. So in the middle of a train step nothing
// waits for messages that are shorter than a piece. Neighbours are two forwards apart, so that
// both sides of an exchange hold the same messages.
#include "schedules/schedule_builder.hpp"

#include <algorithm>
#include <optional>

namespace shardbench {
namespace {

struct Slot {
  std::optional<Piece> forward;
  std::optional<Piece> backward;
};

/// The `ordinal`-th piece that goes forward.
Piece forward_piece(const Pipeline& pipeline, i64 ordinal) {
  const i64 group = pipeline.ranks * pipeline.chunks;
  return {ordinal / group * pipeline.ranks + ordinal % pipeline.ranks,
      ordinal % group / pipeline.ranks};
}

Piece backward_piece(const Pipeline& pipeline, i64 ordinal) {
  const Piece piece = forward_piece(pipeline, ordinal);
  return {piece.micro, pipeline.chunks - 1 - piece.chunk};
}

std::vector<Slot> slots_of(const Pipeline& pipeline, i64 rank) {
  const i64 total = pipeline.micro_batches * pipeline.chunks;
  const i64 wanted = 2 * (pipeline.ranks - rank - 1) + (pipeline.chunks - 1) * pipeline.ranks;
  const i64 ahead = std::min(wanted, total);
  std::vector<Slot> slots;
  for (i64 i = 0; i < ahead; ++i)
    slots.push_back({forward_piece(pipeline, i), std::nullopt});
  for (i64 i = ahead; i < total; ++i)
    slots.push_back({forward_piece(pipeline, i), backward_piece(pipeline, i - ahead)});
  for (i64 i = total - ahead; i < total; ++i)
    slots.push_back({std::nullopt, backward_piece(pipeline, i)});
  return slots;
}

/// Fills a slot, with the receives for the next one.
void fill(ScheduleBuilder& b, const Slot& slot, const Slot& next) {
  if (slot.forward) {
    b.compute(ActionKind::forward, *slot.forward);
    b.send_output(*slot.forward);
  }
  if (next.forward) b.receive_input(*next.forward);
  b.exchange_ahead();
  if (slot.backward) {
    b.compute(ActionKind::backward, *slot.backward);
    b.send_gradient(*slot.backward);
  }
  if (next.backward) b.receive_gradient(*next.backward);
  b.exchange_ahead();
}

}  // namespace

std::vector<Action> interleaved(const Pipeline& pipeline, i64 rank) {
  ScheduleBuilder b(pipeline, rank);
  const std::vector<Slot> slots = slots_of(pipeline, rank);
  fill(b, {}, slots.front());
  for (std::size_t i = 0; i < slots.size(); ++i)
    fill(b, slots[i], i + 1 < slots.size() ? slots[i + 1] : Slot{});
  return b.take();
}

}  // namespace shardbench
