// SPDX-License-Identifier: Apache-2.0
// The nodes of an allocation as its lead knows them: who has come, who has fallen silent, and
// which place each has among them.
//
// Silence is the only notice of a death. A node is known from its first line on; ranks are
// placed once, when all have come, and the first node keeps the first place, since ranks meet
// there. If ranks are the tasks of Slurm steps, one node agent speaks for all nodes of the job,
// and the names are Slurm's. Pure.
#pragma once

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
  std::string node{};                 ///< whose loss it is; empty: not known, or of several
  double silent_s = 0;                ///< it happened so long ago
  std::vector<std::string> absent{};  ///< nodes of the job that never came
  bool killed = false;                ///< from outside: no failure of the node
};

class NodeRoster {
 public:
  /// `agents`: node agents that have to come. `job_nodes`: Slurm's names in its order; empty:
  /// not known. `by_step`: ranks are tasks of Slurm steps.
  NodeRoster(int agents, std::vector<std::string> job_nodes, bool by_step, double now_s);

  /// Anything from a node. False if it is its first word.
  bool hear(const std::string& node, double now_s);
  void come(const NodeReady& ready);
  /// It has said that it leaves, and why. `killed`: its guard says so of an agent that a signal
  /// has ended.
  void leave(const std::string& node, const std::string& why, bool killed = false);
  /// The lead's own loop stood still, and has heard nobody in that time.
  void stretch(double gap_s);
  /// It did so for longer than its agents wait for it: whoever has left has left because of
  /// that, until it is heard after `until_s`. What was said before may still be on its way.
  void leave_alone(double until_s) { alone_until_s_ = until_s; }

  [[nodiscard]] bool is_complete() const { return count() >= agents_; }
  [[nodiscard]] int count() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int agents() const { return agents_; }
  [[nodiscard]] bool by_step() const { return by_step_; }
  [[nodiscard]] const std::vector<std::string>& job_nodes() const { return job_nodes_; }

  /// True for a node of the job, as far as its nodes are known.
  [[nodiscard]] bool holds(const std::string& node) const;

  /// Who has to be told another place than Slurm's, once all have come: by what is between
  /// them, while Slurm numbers nodes by their names. Once.
  [[nodiscard]] std::vector<Place> place();
  /// The same for the ranks of steps: `switches`, by node.
  [[nodiscard]] std::vector<Place> place_by(const std::map<std::string, std::string>& switches);

  /// `agents_limit_s`: for all to come. `lease_s`: without a word.
  [[nodiscard]] std::optional<NodeLoss> loss(
      double now_s, double agents_limit_s, double lease_s) const;
  /// The one connection to all of them has ended. `killed`: a guard by SIGKILL, as srun says.
  [[nodiscard]] NodeLoss loss_of_all(bool killed) const;

  /// By place, as far as they are known.
  [[nodiscard]] std::map<std::int32_t, std::string> names_by_index() const;
  /// Of an allocation of several; empty if ranks are not started by node agents.
  [[nodiscard]] std::vector<std::string> in_order() const;

 private:
  struct Node {
    double heard_s = 0;
    std::int32_t index = -1;
    std::string switches{};  ///< above it; empty: not known
    std::string leaving{};   ///< why, if it has said so
    bool killed = false;     ///< by a signal, as its guard has said
  };
  [[nodiscard]] NodeLoss absence() const;
  /// The lead stood still, and it has not been heard since then.
  [[nodiscard]] bool is_alone(const Node& node) const {
    return alone_until_s_ && node.heard_s <= *alone_until_s_;
  }

  int agents_;
  std::vector<std::string> job_nodes_;
  bool by_step_;
  double since_s_;  ///< when they were started
  std::map<std::string, Node> nodes_;
  std::optional<double> alone_until_s_;
  bool placed_ = false;
};

}  // namespace shardsweep
