// SPDX-License-Identifier: Apache-2.0
// Decision: Slurm numbers an allocation's nodes by their names. The lead numbers them again,
// leaf by leaf, from what each node agent finds in SLURM_TOPOLOGY_ADDR: no question to the
// controller. For steps it asks scontrol once, and srun places ranks by a hostfile. The first
// node stays the first, since ranks meet there.
#include "attempt/topology.hpp"

#include "text/node_list.hpp"
#include "text/pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

constexpr int most_levels = 16;

/// The value behind "Key=" in a line of words; empty: there is none.
std::string_view value_of(std::string_view line, std::string_view key) {
  for (const std::string_view word : split(line, ' ')) {
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
      return word.substr(key.size() + 1);
  }
  return {};
}

struct Switch {
  std::vector<std::string> nodes;     ///< directly below a leaf; of others all below
  std::vector<std::string> switches;  ///< switches below this one; empty: it is a leaf
};
using Switches = std::map<std::string, Switch>;

Switches switches_of(std::string_view text) {
  Switches all;
  for (const std::string_view line : split(text, '\n')) {
    std::string_view name = value_of(line, "SwitchName");
    if (name.empty()) name = value_of(line, "BlockName");
    if (name.empty()) continue;
    Switch& one = all[std::string(name)];
    one.nodes = nodes_in(value_of(line, "Nodes"));
    one.switches = nodes_in(value_of(line, "Switches"));
  }
  return all;
}

/// The one above; of several the first.
std::map<std::string, std::string> parents_of(const Switches& all) {
  std::map<std::string, std::string> parents;
  for (const auto& [name, one] : all) {
    for (const std::string& below : one.switches)
      parents.emplace(below, name);
  }
  return parents;
}

std::string path_to(const std::string& leaf, const std::map<std::string, std::string>& parents) {
  std::string path = leaf;
  std::string at = leaf;
  for (int level = 0; level < most_levels; ++level) {
    const auto parent = parents.find(at);
    if (parent == parents.end()) break;
    at = parent->second;
    path.insert(0, at + ".");
  }
  return path;
}

}  // namespace

std::string switches_in(std::string_view address, std::string_view pattern) {
  const std::size_t node = address.rfind('.');
  const std::size_t last = pattern.rfind('.');
  if (node == std::string_view::npos || last == std::string_view::npos ||
      pattern.substr(last + 1) != "node")
    return "";
  return std::string(address.substr(0, node));
}

std::map<std::string, std::string> switches_by_node(std::string_view text) {
  const Switches all = switches_of(text);
  const auto parents = parents_of(all);
  std::map<std::string, std::string> by_node;
  for (const auto& [name, one] : all) {
    if (!one.switches.empty()) continue;
    const std::string path = path_to(name, parents);
    for (const std::string& node : one.nodes)
      by_node.emplace(node, path);
  }
  return by_node;
}

std::vector<std::string> in_topology_order(const std::vector<PlacedNode>& nodes) {
  std::vector<std::vector<std::string_view>> paths;
  paths.reserve(nodes.size());
  for (const PlacedNode& node : nodes)
    paths.push_back(split(node.switches, '.'));
  const bool known = std::none_of(
      nodes.begin(), nodes.end(), [](const PlacedNode& node) { return node.switches.empty(); });
  std::vector<std::size_t> order(nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  // At each level the first node's own switch goes first, the others in the order in which
  // Slurm has named their first nodes.
  std::map<std::vector<std::string_view>, std::size_t> first_of;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t depth = 1; depth <= paths[i].size(); ++depth)
      first_of.emplace(
          std::vector(paths[i].begin(), paths[i].begin() + static_cast<std::ptrdiff_t>(depth)), i);
  }
  const auto key_of = [&](std::size_t node) {
    std::vector<std::size_t> key;
    for (std::size_t depth = 1; depth <= paths[node].size(); ++depth)
      key.push_back(first_of.at(std::vector(
          paths[node].begin(), paths[node].begin() + static_cast<std::ptrdiff_t>(depth))));
    return key;
  };
  if (known)
    std::stable_sort(order.begin(), order.end(),
        [&](std::size_t a, std::size_t b) { return key_of(a) < key_of(b); });
  std::vector<std::string> names;
  names.reserve(order.size());
  for (const std::size_t i : order)
    names.push_back(nodes[i].name);
  return names;
}

}  // namespace shardsweep
