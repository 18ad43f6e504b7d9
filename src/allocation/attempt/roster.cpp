// SPDX-License-Identifier: Apache-2.0
#include "attempt/roster.hpp"

#include "attempt/classify.hpp"
#include "attempt/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsweep {

namespace {

/// A node agent that hears nothing of its lead ends its ranks and leaves.
constexpr const char* left_alone =
    "the lead stood still for so long that its node agents have ended";

}  // namespace

NodeRoster::NodeRoster(int agents, std::vector<std::string> job_nodes, bool by_step, double now_s)
    : agents_(agents), job_nodes_(std::move(job_nodes)), by_step_(by_step), since_s_(now_s) {}

bool NodeRoster::hear(const std::string& node, double now_s) {
  const auto [at, fresh] = nodes_.try_emplace(node);
  at->second.heard_s = now_s;
  return !fresh;
}

void NodeRoster::come(const NodeReady& ready) {
  Node& node = nodes_[ready.node];
  node.index = ready.index;
  node.switches = ready.switches;
}

void NodeRoster::stretch(double gap_s) {
  since_s_ += gap_s;
  for (auto& [name, node] : nodes_)
    node.heard_s += gap_s;
}

std::vector<Place> NodeRoster::place() {
  if (placed_ || by_step_ || agents_ < 2 || !is_complete()) return {};
  placed_ = true;
  std::vector<PlacedNode> by_slurm;
  for (const std::string& name : in_order())
    by_slurm.push_back({name, nodes_.at(name).switches});
  const auto order = in_topology_order(by_slurm);
  std::vector<Place> moved;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Node& node = nodes_.at(order[i]);
    const auto index = static_cast<std::int32_t>(i);
    if (node.index == index) continue;
    node.index = index;
    moved.push_back({order[i], index});
  }
  return moved;
}

std::vector<Place> NodeRoster::place_by(const std::map<std::string, std::string>& switches) {
  std::vector<PlacedNode> by_slurm;
  for (const std::string& node : job_nodes_) {
    const auto found = switches.find(node);
    by_slurm.push_back({node, found == switches.end() ? "" : found->second});
  }
  const auto order = in_topology_order(by_slurm);
  if (order == job_nodes_) return {};
  job_nodes_ = order;
  std::vector<Place> places;
  places.reserve(order.size());
  for (const std::string& node : order)
    places.push_back({node, static_cast<std::int32_t>(places.size())});
  return places;
}

void NodeRoster::leave(const std::string& node, const std::string& why, bool killed) {
  nodes_[node].leaving = why;
  nodes_[node].killed = killed;
}

std::optional<NodeLoss> NodeRoster::loss(
    double now_s, double agents_limit_s, double lease_s) const {
  if (!is_complete() && now_s - since_s_ > agents_limit_s) return absence();
  for (const auto& [name, node] : nodes_) {
    const double silent_s = now_s - node.heard_s;
    if (silent_s <= lease_s) continue;
    if (is_alone(node)) return NodeLoss{.why = left_alone, .silent_s = silent_s};
    std::string why = node.leaving;
    add_clause(why, fmt::format("node {} sent nothing for {:.1f} s", name, silent_s));
    return NodeLoss{why, name, silent_s};
  }
  return std::nullopt;
}

/// If others have started, their absence speaks against these. If none has, srun or Slurm's
/// controller may be the cause.
NodeLoss NodeRoster::absence() const {
  NodeLoss loss{fmt::format("{} of {} node agents did not start", agents_ - count(), agents_)};
  std::string names;
  for (const std::string& node : job_nodes_) {
    if (nodes_.contains(node) || nodes_.empty()) continue;
    names += (names.empty() ? ": " : ", ") + node;
    loss.absent.push_back(node);
  }
  loss.why += names;
  return loss;
}

/// srun gives up the whole step if the connection to one node breaks in the middle of a
/// message, as when a guard dies: the node that had begun to leave is the cause.
///
/// A guard that is killed with its node agent says nothing, or the agent's end if that came a
/// moment earlier: `scancel` does that, and the kernel because memory ran out.
NodeLoss NodeRoster::loss_of_all(bool killed) const {
  if (nodes_.empty()) return {"no node agent has started"};
  const bool left = std::any_of(
      nodes_.begin(), nodes_.end(), [this](const auto& node) { return is_alone(node.second); });
  if (left && !killed) return {left_alone};
  const bool alone = count() == 1 && agents_ == 1;
  for (const auto& [name, node] : nodes_) {
    if (alone && killed && (node.leaving.empty() || node.killed))
      return {.why = fmt::format("the step of the node agent on {} was killed (SIGKILL): by "
                                 "scancel, or by the kernel because the memory was used up",
                  name),
          .node = name,
          .killed = true};
    if (alone && node.leaving.empty())
      return {fmt::format("the node agent of {} has ended", name), name};
    if (alone) return {node.leaving, name};
    // srun kills the agents of all nodes if it can't launch that of one.
    const bool by_srun = node.killed && (killed || !is_complete());
    if (!node.leaving.empty() && !by_srun)
      return {node.leaving + "; the other node agents ended too", name};
  }
  return {
      fmt::format("all node agents have ended; which of {} nodes was first is unknown", agents_)};
}

bool NodeRoster::holds(const std::string& node) const {
  return nodes_.contains(node) || job_nodes_.empty() ||
      std::find(job_nodes_.begin(), job_nodes_.end(), node) != job_nodes_.end();
}

std::map<std::int32_t, std::string> NodeRoster::names_by_index() const {
  std::map<std::int32_t, std::string> names;
  for (const std::string& node : job_nodes_) {
    if (by_step_) names[static_cast<std::int32_t>(names.size())] = node;
  }
  for (const auto& [name, node] : nodes_)
    names[node.index] = name;
  return names;
}

std::vector<std::string> NodeRoster::in_order() const {
  if (count() < 2 || count() != agents_) return {};
  std::vector<std::string> names(nodes_.size());
  for (const auto& [name, node] : nodes_) {
    if (node.index < 0 || node.index >= agents_) return {};
    names[static_cast<std::size_t>(node.index)] = name;
  }
  return names;
}

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
