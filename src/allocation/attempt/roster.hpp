// SPDX-License-Identifier: Apache-2.0
// The nodes of an allocation as its lead knows them: who has come, who has fallen silent, and
// which place each has among them.
//
// Silence is the only notice of a death. A node is known from its first line on; ranks are
// placed once, when all have come, and the first node keeps the first place, since ranks meet
// there. If ranks are the tasks of Slurm steps, one node agent speaks for all nodes of the job,
// and the names are Slurm's. Pure.
#pragma once

#include "attempt/classify.hpp"
#include "attempt/hang.hpp"

#include <shardsweep/protocol.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Why no attempt can run on an allocation any more.
struct NodeLoss {
  std::string why;
  std::string node{};                 ///< lost node; empty: not known, or several
  double silent_s = 0;                ///< time since its last word
  std::vector<std::string> absent{};  ///< nodes of the job that never came
  bool killed = false;                ///< killed from outside: no failure of the node
};

class NodeRoster {
 public:
  /// `agents`: node agents that have to come. `job_nodes`: Slurm's names in its order; empty:
  /// not known. `by_step`: ranks are tasks of Slurm steps.
  NodeRoster(int agents, std::vector<std::string> job_nodes, bool by_step, double now_s);

  /// Notes a sign of life. False if it is the node's first.
  bool hear(const std::string& node, double now_s);
  void come(const NodeReady& ready);
  /// Notes that a node leaves, and why. `killed`: its guard reports an agent that a signal ended.
  void leave(const std::string& node, const std::string& why, bool killed = false);
  /// The lead's own loop stood still, and has heard nobody in that time.
  void stretch(double gap_s);
  /// Notes a gap of the lead that was longer than its agents wait. Agents that left did so because
  /// of the gap, until they are heard after `until_s`: earlier messages may still arrive.
  void leave_alone(double until_s) { alone_until_s_ = until_s; }

  [[nodiscard]] bool is_complete() const { return count() >= agents_; }
  [[nodiscard]] int count() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int agents() const { return agents_; }
  [[nodiscard]] bool by_step() const { return by_step_; }
  [[nodiscard]] const std::vector<std::string>& job_nodes() const { return job_nodes_; }

  /// True for a node of the job, as far as its nodes are known.
  [[nodiscard]] bool holds(const std::string& node) const;

  /// Places that differ from Slurm's, once all nodes have come; returned once. Slurm numbers nodes
  /// by name, this order by the switches between them.
  [[nodiscard]] std::vector<Place> place();
  /// Places for the ranks of steps; `switches` by node.
  [[nodiscard]] std::vector<Place> place_by(const std::map<std::string, std::string>& switches);

  /// `agents_limit_s`: for all to come. `lease_s`: without a word.
  [[nodiscard]] std::optional<NodeLoss> loss(
      double now_s, double agents_limit_s, double lease_s) const;
  /// The one connection to all of them has ended. `killed`: a guard by SIGKILL, as srun says.
  [[nodiscard]] NodeLoss loss_of_all(bool killed) const;

  /// Names by place, as far as they are known.
  [[nodiscard]] std::map<std::int32_t, std::string> names_by_index() const;
  /// Names of several nodes, by place; empty until all have one, or if no node agents start the
  /// ranks.
  [[nodiscard]] std::vector<std::string> in_order() const;

 private:
  struct Node {
    double heard_s = 0;
    std::int32_t index = -1;
    std::string switches{};  ///< switches above the node; empty: not known
    std::string leaving{};   ///< why, if it has said so
    bool killed = false;     ///< ended by a signal, as its guard has said
  };
  [[nodiscard]] NodeLoss absence() const;
  /// The lead stood still, and it has not been heard since then.
  [[nodiscard]] bool is_alone(const Node& node) const {
    return alone_until_s_ && node.heard_s <= *alone_until_s_;
  }

  int agents_;
  std::vector<std::string> job_nodes_;
  bool by_step_;
  double since_s_;  ///< start of the node agents
  std::map<std::string, Node> nodes_;
  std::optional<double> alone_until_s_;
  bool placed_ = false;
};

// The running attempt as the lead sees it: what each node has said of its part, and what the
// others have to be told because of it.
//
// The lead ends an attempt for one reason, the first that it has. It is over when each node has
// said how its part ended. Between the first of these and the last the others get a moment:
// ranks that have failed are noticed by their peers, and ranks that are through by their own
// teardown. Nothing of this outlives the lead; its daemon finds records and silence. Pure.

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
