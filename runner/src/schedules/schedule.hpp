// SPDX-License-Identifier: Apache-2.0
// The order of work of one pipeline rank, as data: a pure function of the pipeline, the rank
// and the kind of schedule. One interpreter runs all of them (trainer.cpp); timeline.hpp proves
// of a list what it costs.
//
// Each rank holds `chunks` parts of the layers. Chunk c of rank r is stage c·p + r of the
// model, so that stages go round the ranks `chunks` times. Folded, they turn at the last rank:
// its two chunks follow each other, and the second one of rank 0 is the model's last stage.
#pragma once

#include "parallel/layout.hpp"

#include <vector>

namespace shardbench {

/// input_gradient and weight_gradient are the halves of a backward.
enum class ActionKind { forward, backward, input_gradient, weight_gradient, transfer };

/// One micro-batch on one chunk of the rank.
struct Piece {
  i64 micro = 0;
  i64 chunk = 0;
  bool operator==(const Piece&) const = default;
};

enum class Side { receive, send };
/// An activation goes to the stage behind, a gradient to the one before.
enum class Flow { activation, gradient };

/// `piece` is this rank's: its input, its output, or the gradient to either.
struct Message {
  Side side;
  Flow flow;
  Piece piece;
  i64 peer;
};

/// A transfer starts its messages together, and ends when all of them have ended. A transfer ahead
/// ends later: its messages travel under the computation that follows. Received ones end before
/// their piece is computed; sent ones end then too, or at the next transfer of the same flow.
struct Action {
  ActionKind kind;
  Piece piece = {};                    // set for all kinds but transfer
  std::vector<Message> messages = {};  // messages of a transfer; receives come first
  bool ahead = false;                  // transfer whose messages are sent ahead, all of one flow
};

/// True if a message that was sent ahead has to end before that action.
bool ends_before(const Message& message, const Action& action);

struct Pipeline {
  i64 ranks = 1;
  i64 chunks = 1;
  i64 micro_batches = 1;
  bool folded = false;
  i64 stages() const { return ranks * chunks; }
  i64 stage(i64 rank, i64 chunk) const {
    return chunk * ranks + (folded && chunk % 2 == 1 ? ranks - 1 - rank : rank);
  }
  i64 chunk_of(i64 stage) const { return stage / ranks; }
  i64 rank_of(i64 stage) const {
    const i64 place = stage % ranks;
    return folded && chunk_of(stage) % 2 == 1 ? ranks - 1 - place : place;
  }
  /// The rank that has the model's head.
  i64 last_rank() const { return rank_of(stages() - 1); }
};

Pipeline pipeline_of(const Layout& layout);
std::vector<Action> make_schedule(ScheduleKind kind, const Pipeline& pipeline, i64 rank);

/// Ends the rank where a piece is left out, done twice or done too early. Each list of
/// make_schedule() has passed it.
void check_pieces(const std::vector<Action>& actions, const Pipeline& pipeline, i64 rank);

/// Pieces that the rank holds activations of at most: from forward to the end of backward.
i64 most_in_flight(const std::vector<Action>& actions);

}  // namespace shardbench
