// SPDX-License-Identifier: Apache-2.0
// Which place each node has among those of its allocation.
#include "agent/lead.hpp"
#include "attempt/topology.hpp"

namespace shardsweep::agent {

/// The ranks of a step are on all nodes, of which one has a node agent.
void Lead::say_job_nodes(const std::string& known) {
  for (const std::string& node : job_nodes_) {
    // Its host is called as its node, where an administrator has said nothing else.
    if (node != known) say(NodeSeen{node, node, 0}, false);
  }
}

/// Before anything has run. Slurm numbers nodes by their names, whatever is between them.
void Lead::place_nodes() {
  if (placed_ || is_step_launch() || agents_ < 2 || !nodes_ready()) return;
  placed_ = true;
  std::vector<PlacedNode> by_slurm;
  for (const std::string& name : nodes_in_order())
    by_slurm.push_back({name, nodes_.at(name).switches});
  const auto order = in_topology_order(by_slurm);
  for (std::size_t i = 0; i < order.size(); ++i) {
    Node& node = nodes_.at(order[i]);
    const auto index = static_cast<std::int32_t>(i);
    if (node.index == index) continue;
    node.index = index;
    tell(Place{order[i], index});
  }
}

/// The same for the ranks of steps: their one node agent has srun place them.
void Lead::place_job_nodes() {
  if (!nodes_ready()) return;
  const auto switches = topology_.step(clock_, log_);
  if (!switches) return;
  std::vector<PlacedNode> by_slurm;
  for (const std::string& node : job_nodes_) {
    const auto found = switches->find(node);
    by_slurm.push_back({node, found == switches->end() ? "" : found->second});
    if (!by_slurm.back().switches.empty())
      say(NodeSeen{node, node, 0, by_slurm.back().switches}, false);
  }
  const auto order = in_topology_order(by_slurm);
  if (order == job_nodes_) return;
  job_nodes_ = order;
  for (std::size_t i = 0; i < order.size(); ++i)
    tell(Place{order[i], static_cast<std::int32_t>(i)});
}

std::map<std::int32_t, std::string> Lead::names_by_index() const {
  std::map<std::int32_t, std::string> names;
  for (const std::string& node : job_nodes_) {
    if (is_step_launch()) names[static_cast<std::int32_t>(names.size())] = node;
  }
  for (const auto& [name, node] : nodes_)
    names[node.index] = name;
  return names;
}

/// Of an allocation of several; empty where ranks are not started by node agents.
std::vector<std::string> Lead::nodes_in_order() const {
  if (nodes_.size() < 2 || static_cast<int>(nodes_.size()) != agents_) return {};
  std::vector<std::string> names(nodes_.size());
  for (const auto& [name, node] : nodes_) {
    if (node.index < 0 || node.index >= agents_) return {};
    names[static_cast<std::size_t>(node.index)] = name;
  }
  return names;
}

}  // namespace shardsweep::agent
