// SPDX-License-Identifier: Apache-2.0
// ZB-V (arXiv 2401.10241, section 6): the stages go down the ranks and come up again, so that
// each rank has one of either way and rank 0 both ends of the model. Backwards are cut in two.
//
// The lists are those of ranks that take turns of equal length. In each turn a rank takes the
// first of these that is there for it: a backward on its way down, a forward on its way down, a
// forward on its way up, a backward on its way up, a weight gradient. It holds 2p pieces at
// most, as much as rank 0 under 1F1B, and keeps room for the second forward of what it began.
// After a turn its result goes to the neighbour, which takes it at once: both come to that
// exchange after the same turn, so that neither can wait for ever.
#include "schedules/schedule_builder.hpp"

#include <array>
#include <cstddef>
#include <deque>
#include <optional>

namespace shardbench {
namespace {

struct TurnWork {
  ActionKind kind;
  Piece piece;
};

/// Turns of one rank; empty: it waits.
using Turns = std::vector<std::optional<TurnWork>>;

class FoldedTurns {
 public:
  explicit FoldedTurns(const Pipeline& pipeline)
      : pipeline_(pipeline),
        ranks_(static_cast<std::size_t>(pipeline.ranks)),
        forwards_(static_cast<std::size_t>(pipeline.stages())),
        backwards_(static_cast<std::size_t>(pipeline.stages())) {}

  std::vector<Turns> take() {
    std::vector<Turns> turns(ranks_.size());
    while (ended_ < 3 * pipeline_.stages() * pipeline_.micro_batches) {
      std::vector<std::optional<TurnWork>> turn;
      for (i64 rank = 0; rank < pipeline_.ranks; ++rank)
        turn.push_back(choose(rank));
      // Products of a turn are available to the next one.
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (turn[rank]) carry_out(static_cast<i64>(rank), *turn[rank]);
        turns[rank].push_back(turn[rank]);
      }
    }
    return turns;
  }

 private:
  struct Rank {
    std::array<i64, 2> forwards{};   // done, by chunk
    std::array<i64, 2> backwards{};  // done, by chunk
    std::deque<Piece> weights;       // pieces whose weights' gradients are left
    i64 held = 0;
  };

  i64& done(std::vector<i64>& of_stage, i64 stage) {
    return of_stage[static_cast<std::size_t>(stage)];
  }

  /// The next forward of a chunk, where its input is there and there is room.
  std::optional<TurnWork> forward(const Rank& rank, i64 number, i64 chunk) {
    const i64 micro = rank.forwards[static_cast<std::size_t>(chunk)];
    const i64 stage = pipeline_.stage(number, chunk);
    if (micro == pipeline_.micro_batches) return std::nullopt;
    if (stage > 0 && done(forwards_, stage - 1) <= micro) return std::nullopt;
    const i64 begun = chunk == 0 ? rank.forwards[0] - rank.forwards[1] : 0;
    if (rank.held + begun >= pipeline_.stages()) return std::nullopt;
    return TurnWork{ActionKind::forward, {micro, chunk}};
  }

  std::optional<TurnWork> backward(const Rank& rank, i64 number, i64 chunk) {
    const i64 micro = rank.backwards[static_cast<std::size_t>(chunk)];
    const i64 stage = pipeline_.stage(number, chunk);
    if (micro == pipeline_.micro_batches || done(forwards_, stage) <= micro) return std::nullopt;
    if (stage + 1 < pipeline_.stages() && done(backwards_, stage + 1) <= micro) return std::nullopt;
    return TurnWork{ActionKind::input_gradient, {micro, chunk}};
  }

  std::optional<TurnWork> choose(i64 number) {
    const Rank& rank = ranks_[static_cast<std::size_t>(number)];
    if (auto work = backward(rank, number, 1)) return work;
    if (auto work = forward(rank, number, 1)) return work;
    if (auto work = forward(rank, number, 0)) return work;
    if (auto work = backward(rank, number, 0)) return work;
    if (rank.weights.empty()) return std::nullopt;
    return TurnWork{ActionKind::weight_gradient, rank.weights.front()};
  }

  void carry_out(i64 number, const TurnWork& work) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    const i64 stage = pipeline_.stage(number, work.piece.chunk);
    const auto chunk = static_cast<std::size_t>(work.piece.chunk);
    ++ended_;
    if (work.kind == ActionKind::forward) {
      ++rank.forwards[chunk];
      ++done(forwards_, stage);
      ++rank.held;
    } else if (work.kind == ActionKind::input_gradient) {
      ++rank.backwards[chunk];
      ++done(backwards_, stage);
      rank.weights.push_back(work.piece);
    } else {
      rank.weights.pop_front();
      --rank.held;
    }
  }

  Pipeline pipeline_;
  std::vector<Rank> ranks_;
  std::vector<i64> forwards_;  // done, by stage
  std::vector<i64> backwards_;
  i64 ended_ = 0;
};

bool is(const std::optional<TurnWork>& work, ActionKind kind, i64 chunk) {
  return work && work->kind == kind && work->piece.chunk == chunk;
}

/// Receives what neighbours have made for this rank in that turn.
void receive(ScheduleBuilder& b, const Pipeline& pipeline, const std::vector<Turns>& turns,
    std::size_t turn, i64 rank) {
  for (i64 chunk = 0; chunk < pipeline.chunks; ++chunk) {
    const i64 stage = pipeline.stage(rank, chunk);
    const auto made_by = [&](i64 other) {
      return turns[static_cast<std::size_t>(pipeline.rank_of(other))][turn];
    };
    if (stage > 0) {
      const auto work = made_by(stage - 1);
      if (is(work, ActionKind::forward, pipeline.chunk_of(stage - 1)))
        b.receive_input({work->piece.micro, chunk});
    }
    if (stage + 1 < pipeline.stages()) {
      const auto work = made_by(stage + 1);
      if (is(work, ActionKind::input_gradient, pipeline.chunk_of(stage + 1)))
        b.receive_gradient({work->piece.micro, chunk});
    }
  }
}

}  // namespace

std::vector<Action> zero_bubble_v(const Pipeline& pipeline, i64 rank) {
  const std::vector<Turns> turns = FoldedTurns(pipeline).take();
  const Turns& own = turns[static_cast<std::size_t>(rank)];
  ScheduleBuilder b(pipeline, rank);
  for (std::size_t turn = 0; turn < own.size(); ++turn) {
    if (own[turn]) {
      b.compute(own[turn]->kind, own[turn]->piece);
      if (own[turn]->kind == ActionKind::forward) b.send_output(own[turn]->piece);
      if (own[turn]->kind == ActionKind::input_gradient) b.send_gradient(own[turn]->piece);
    }
    receive(b, pipeline, turns, turn, rank);
    b.exchange();
  }
  return b.take();
}

}  // namespace shardbench
