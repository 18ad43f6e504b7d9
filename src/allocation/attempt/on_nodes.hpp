// SPDX-License-Identifier: Apache-2.0
// The running attempt as the lead sees it: what each node has said of its part, and what the
// others have to be told because of it.
//
// The lead ends an attempt for one reason, the first that it has. It is over when each node has
// said how its part ended. Between the first of these and the last the others get a moment:
// ranks that have failed are noticed by their peers, and ranks that are through by their own
// teardown. Nothing of this outlives the lead; its daemon finds records and silence. Pure.
#pragma once

#include "attempt/classify.hpp"
#include "attempt/hang.hpp"

#include <shardsweep/protocol.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace shardsweep {

class AttemptOnNodes {
 public:
  AttemptOnNodes(Assign assign, AttemptSpec spec)
      : assign_(std::move(assign)), spec_(std::move(spec)) {}

  /// True if its train steps are timed from now on, which the other nodes have to know.
  [[nodiscard]] bool see(const std::string& node, const NodeBeat& beat);
  /// True if all nodes have to be asked now whether they see progress.
  [[nodiscard]] bool see(const Suspect& suspicion, double now_s);
  void see(const std::string& node, const NoProgress& still) { hang_.answer(node, still); }
  void see(const std::string& node, const NodeEnded& ended, double now_s);
  /// Why it is hung, once all of `nodes` agree.
  [[nodiscard]] std::optional<std::string> hung_because(int nodes, double now_s);
  /// Order for the nodes that still run; returned once.
  [[nodiscard]] std::optional<EndAttempt> end_others(double now_s);
  void stretch(double gap_s);

  /// The lead's own reason to end it. False if it had one before.
  bool hold_against_it(Evidence reason);

  [[nodiscard]] AttemptId id() const { return assign_.attempt; }
  [[nodiscard]] bool has_ended_on(int nodes) const {
    return static_cast<int>(ended_.size()) == nodes;
  }
  /// Beat for the daemon: the node that is furthest speaks for the attempt.
  [[nodiscard]] Beat beat() const;
  [[nodiscard]] const Assign& assign() const { return assign_; }
  [[nodiscard]] const AttemptSpec& spec() const { return spec_; }
  /// Reports by node; nodes that did not report are missing.
  [[nodiscard]] const std::map<std::string, NodeEnded>& ended() const { return ended_; }
  [[nodiscard]] const std::optional<Evidence>& own() const { return own_; }

 private:
  Assign assign_;
  AttemptSpec spec_;
  std::optional<Evidence> own_;
  HangQuestion hang_;
  bool timed_ = false;  ///< train steps have begun to be timed, and the nodes know it
  std::map<std::string, NodeBeat> beats_;
  std::map<std::string, NodeEnded> ended_;
  std::optional<double> end_others_at_s_;
};

}  // namespace shardsweep
