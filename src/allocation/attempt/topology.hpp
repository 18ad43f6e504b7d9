// SPDX-License-Identifier: Apache-2.0
// Where the nodes of an allocation are in the network, and the order in which neighbours in
// rank are neighbours there. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Switches or blocks above a node, the top one first, as "core.leaf". From Slurm's
/// SLURM_TOPOLOGY_ADDR ("core.leaf.n1") and SLURM_TOPOLOGY_ADDR_PATTERN ("switch.switch.node").
/// Empty: the cluster has no topology.
[[nodiscard]] std::string switches_in(std::string_view address, std::string_view pattern);

/// Switches above each node, read from the output of `scontrol show topology`. Lines that are no
/// switch or block are left out.
[[nodiscard]] std::map<std::string, std::string> switches_by_node(std::string_view text);

struct PlacedNode {
  std::string name;
  std::string switches{};  ///< empty: not known
  friend bool operator==(const PlacedNode&, const PlacedNode&) = default;
};
/// Nodes below one switch beside each other, at each level. `nodes`: in Slurm's order. The
/// first one stays the first, with its neighbours behind it: ranks meet there. Unchanged where
/// a node's place is not known.
[[nodiscard]] std::vector<std::string> in_topology_order(const std::vector<PlacedNode>& nodes);

}  // namespace shardsweep
