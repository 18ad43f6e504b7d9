// SPDX-License-Identifier: Apache-2.0
#include "attempt/on_nodes.hpp"

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

// The ranks on other nodes notice, say so and leave; then they are ended.
constexpr double peers_grace_s = 2;

bool is_completed(const NodeEnded& ended) {
  return ended.ending.outcome == Outcome::completed;
}

}  // namespace

bool AttemptOnNodes::see(const std::string& node, const NodeBeat& beat) {
  beats_[node] = beat;
  const bool begins = beat.timed && !timed_ && beat.attempt == id();
  timed_ = timed_ || begins;
  return begins;
}

bool AttemptOnNodes::see(const Suspect& suspicion, double now_s) {
  return !own_ && suspicion.attempt == id() && hang_.suspect(suspicion, now_s);
}

void AttemptOnNodes::see(const std::string& node, const NodeEnded& ended, double now_s) {
  ended_.insert_or_assign(node, ended);
  // The ranks of one node are through: those of the others should be too. If they have failed,
  // the others notice.
  const double wait_s = is_completed(ended) ? spec_.limits.teardown_limit_s : peers_grace_s;
  if (is_completed(ended) && wait_s <= 0) return;
  end_others_at_s_ = std::min(end_others_at_s_.value_or(now_s + wait_s), now_s + wait_s);
}

std::optional<std::string> AttemptOnNodes::hung_because(int nodes, double now_s) {
  return own_ ? std::nullopt : hang_.verdict(nodes, now_s);
}

std::optional<EndAttempt> AttemptOnNodes::end_others(double now_s) {
  if (!end_others_at_s_ || now_s <= *end_others_at_s_) return std::nullopt;
  end_others_at_s_.reset();
  const bool failed = std::any_of(
      ended_.begin(), ended_.end(), [](const auto& node) { return !is_completed(node.second); });
  return failed ? EndAttempt{id(), Outcome::crashed, "a rank elsewhere has failed"}
                : EndAttempt{id(), Outcome::hung, "the ranks of other nodes had ended long before"};
}

void AttemptOnNodes::stretch(double gap_s) {
  if (end_others_at_s_) *end_others_at_s_ += gap_s;
}

bool AttemptOnNodes::hold_against_it(Evidence reason) {
  if (own_) return false;
  own_ = std::move(reason);
  return true;
}

Beat AttemptOnNodes::beat() const {
  Beat furthest{.attempt = id()};
  for (const auto& [node, beat] : beats_) {
    if (beat.step < furthest.step || beat.phase.empty()) continue;
    furthest.phase = beat.phase;
    furthest.step = beat.step;
  }
  return furthest;
}

}  // namespace shardsweep
