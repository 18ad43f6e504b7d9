// SPDX-License-Identifier: Apache-2.0
// What the schedules are written with: computations, and exchanges of messages.
#pragma once

#include "schedules/schedule.hpp"

#include <functional>
#include <utility>

namespace shardbench {

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Pipeline& pipeline, i64 rank) : pipeline_(pipeline), rank_(rank) {}

  void compute(ActionKind kind, const Piece& piece) { actions_.push_back({kind, piece}); }

  // Messages of the next exchange. At the ends of the model, and between two stages of the
  // rank itself, there is none.
  void receive_input(const Piece& piece) { before(Side::receive, Flow::activation, piece); }
  void send_gradient(const Piece& piece) { before(Side::send, Flow::gradient, piece); }
  void send_output(const Piece& piece) { behind(Side::send, Flow::activation, piece); }
  void receive_gradient(const Piece& piece) { behind(Side::receive, Flow::gradient, piece); }

  /// Ends the messages so far, as one transfer.
  void exchange();
  /// Lets them travel under what comes next.
  void exchange_ahead();

  std::vector<Action> take() { return std::move(actions_); }

 private:
  void transfer(bool ahead);
  void before(Side side, Flow flow, const Piece& piece);
  void with(i64 stage, Side side, Flow flow, const Piece& piece);
  void behind(Side side, Flow flow, const Piece& piece);

  Pipeline pipeline_;
  i64 rank_;
  std::vector<Message> messages_;
  std::vector<Action> actions_;
};

/// Work of 1F1B for a backward, and until the next input is there.
struct BackwardOf {
  ActionKind kind;
  std::function<void(ScheduleBuilder&, const Piece&)> then;
};
void one_forward_one_backward(
    ScheduleBuilder& b, const Pipeline& pipeline, i64 rank, const BackwardOf& backward);

// One function for each kind: the list of a rank.
std::vector<Action> all_forward_all_backward(const Pipeline& pipeline, i64 rank);
std::vector<Action> one_forward_one_backward(const Pipeline& pipeline, i64 rank);
/// 1F1B over several chunks for each rank. Micro-batches are a multiple of the ranks.
std::vector<Action> interleaved(const Pipeline& pipeline, i64 rank);
std::vector<Action> zero_bubble_h1(const Pipeline& pipeline, i64 rank);
/// Runs over a folded pipeline of two chunks for each rank.
std::vector<Action> zero_bubble_v(const Pipeline& pipeline, i64 rank);

}  // namespace shardbench
