// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_node.hpp"

#include <shardsweep/allocation_files.hpp>

#include <algorithm>

namespace shardsweep::testing {
namespace {

constexpr double lease_s = 15;
constexpr double still_beat_s = 1;
constexpr double grace_s = 1;

}  // namespace

void PlayedNode::hear(const ToNodeBody& message, Moment now) {
  heard_s_ = now.s;
  if (const auto* launch_it = std::get_if<Launch>(&message)) launch(*launch_it, now);
  if (const auto* end = std::get_if<EndAttempt>(&message); end && part_) {
    if (end->attempt != part_->attempt) return;
    part_->fate.ending.outcome = end->outcome;
    part_->fate.ending.cause = end->why;
    part_->ends_at_s = std::min(part_->ends_at_s, now.s + grace_s);
  }
  if (const auto* question = std::get_if<AskProgress>(&message))
    say(NoProgress{question->attempt, part_ ? 100.0 : -1.0});
  if (std::holds_alternative<Quit>(message)) gone_ = true;
  if (const auto* check = std::get_if<CheckNode>(&message))
    say(NodeChecked{check->time, {.device = "played", .seconds = 1}});
}

void PlayedNode::launch(const Launch& launch, Moment now) {
  const auto text = read_own_file(AttemptPaths{launch.dir}.spec());
  const auto spec = text ? decode_attempt_spec(*text) : Result<AttemptSpec>(AttemptSpec{});
  if (!spec || part_) {
    NodeEnded refused{.attempt = launch.attempt, .at = now.at};
    refused.ending = {.outcome = Outcome::node_failure,
                      .cause = "not started",
                      .source = SaidBy::agent,
                      .node = name_};
    return say(refused);
  }
  const RankFate fate = around_.fate_of(launch.attempt);
  part_ = Part{launch.attempt, spec->nonce, launch.dir, now.s + fate.seconds, fate};
  say(NodeLaunched{launch.attempt});
}

void PlayedNode::end_part(Moment now) {
  const Part part = *std::exchange(part_, std::nullopt);
  NodeEnded ended{.attempt = part.attempt, .ending = part.fate.ending, .at = now.at};
  if (index_ == 0 && ended.ending.outcome == Outcome::completed)
    around_.attempts.write_result(part.nonce, part.dir, part.fate.speed);
  say(ended);
}

void PlayedNode::act(Moment now) {
  if (gone_ || dead_ || stopped_ || now.s < ready_at_s_) return;
  if (!ready_) {
    ready_ = true;
    heard_s_ = beat_s_ = acted_s_ = now.s;
    say(NodeReady{.node = name_, .host = name_, .pid = 1, .index = index_});
  }
  const double gap_s = now.s - std::exchange(acted_s_, now.s);
  if (gap_s > 3 * still_beat_s) heard_s_ += gap_s;
  if (now.s - heard_s_ > lease_s) {
    gone_ = true;
    return;
  }
  if (part_ && now.s >= part_->ends_at_s) end_part(now);
  if (now.s - beat_s_ < still_beat_s) return;
  beat_s_ = now.s;
  say(part_ ? NodeBeat{part_->attempt, "train", 1} : NodeBeat{});
}

void PlayedNode::die(bool with_result) {
  if (with_result && part_ && index_ == 0 && !gone_ && !dead_)
    around_.attempts.write_result(part_->nonce, part_->dir);
  dead_ = true;
}

}  // namespace shardsweep::testing
