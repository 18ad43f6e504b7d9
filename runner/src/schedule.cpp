// SPDX-License-Identifier: Apache-2.0
// AFAB: all forwards, then all backwards. 1F1B (arXiv 2104.04473): min(p − stage − 1, m)
// forwards ahead, then one forward and one backward in turn, then the remaining backwards.
// Backwards go in the order of forwards. Opposite messages to one neighbour are one transfer,
// so that two stages that both send first do not wait for each other.
#include "schedule.hpp"

#include <algorithm>

namespace shardbench {
namespace {

class Builder {
 public:
  Builder(i64 stages, i64 stage) : first_(stage == 0), last_(stage == stages - 1) {}

  void transfer(const Action& messages) {
    Action action = messages;
    action.kind = ActionKind::transfer;
    if (first_) action.receive_forward = action.send_backward = -1;
    if (last_) action.send_forward = action.receive_backward = -1;
    const bool empty = action.receive_forward < 0 && action.send_backward < 0 &&
                       action.send_forward < 0 && action.receive_backward < 0;
    if (!empty) actions_.push_back(action);
  }
  void compute(ActionKind kind, i64 micro) {
    actions_.push_back({.kind = kind, .micro = micro});
  }
  void receive_forward(i64 micro) {
    transfer({.kind = ActionKind::transfer, .receive_forward = micro});
  }
  void forward_alone(i64 micro) {
    receive_forward(micro);
    compute(ActionKind::forward, micro);
    transfer({.kind = ActionKind::transfer, .send_forward = micro});
  }
  void backward_alone(i64 micro) {
    transfer({.kind = ActionKind::transfer, .receive_backward = micro});
    compute(ActionKind::backward, micro);
    transfer({.kind = ActionKind::transfer, .send_backward = micro});
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  bool first_;
  bool last_;
  std::vector<Action> actions_;
};

std::vector<Action> one_f_one_b(i64 stages, i64 stage, i64 micro_batches) {
  Builder b(stages, stage);
  const i64 ahead = std::min(stages - stage - 1, micro_batches);
  for (i64 i = 0; i < ahead; ++i)
    b.forward_alone(i);
  if (ahead < micro_batches) b.receive_forward(ahead);
  for (i64 i = ahead; i < micro_batches; ++i) {
    const i64 back = i - ahead;
    const bool more = i + 1 < micro_batches;
    b.compute(ActionKind::forward, i);
    b.transfer({.kind = ActionKind::transfer, .send_forward = i, .receive_backward = back});
    b.compute(ActionKind::backward, back);
    b.transfer({.kind = ActionKind::transfer,
                .receive_forward = more ? i + 1 : -1,
                .send_backward = back});
  }
  for (i64 back = micro_batches - ahead; back < micro_batches; ++back)
    b.backward_alone(back);
  return b.take();
}

}  // namespace

std::vector<Action> make_schedule(ScheduleKind kind, i64 stages, i64 stage, i64 micro_batches) {
  if (kind == ScheduleKind::one_f_one_b) return one_f_one_b(stages, stage, micro_batches);
  Builder b(stages, stage);
  for (i64 i = 0; i < micro_batches; ++i)
    b.forward_alone(i);
  for (i64 i = 0; i < micro_batches; ++i)
    b.backward_alone(i);
  return b.take();
}

i64 most_in_flight(const std::vector<Action>& actions) {
  i64 held = 0;
  i64 most = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (action.kind == ActionKind::backward) --held;
  }
  return most;
}

}  // namespace shardbench
