// SPDX-License-Identifier: Apache-2.0
#include "attempt/topology.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("a node's switches are its address without its own name") {
  CHECK(switches_in("core.leaf2.n4", "switch.switch.node") == "core.leaf2");
  CHECK(switches_in("b1.n4", "block.node") == "b1");
  // A cluster without a topology.
  CHECK(switches_in("n4", "node").empty());
  CHECK(switches_in("", "").empty());
  CHECK(switches_in("core.n4", "node.switch").empty());
}

TEST_CASE("scontrol's switches are read from the leaves up") {
  const auto by_node = switches_by_node(
      "SwitchName=core Level=1 LinkSpeed=1 Nodes=n[1-5] Switches=leaf[1-2]\n"
      "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1,3,5]\n"
      "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[2,4]\n");
  CHECK(by_node.size() == 5);
  CHECK(by_node.at("n5") == "core.leaf1");
  CHECK(by_node.at("n2") == "core.leaf2");
  const auto blocks = switches_by_node(
      "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
      "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n");
  CHECK(blocks.at("n3") == "b2");
  CHECK(switches_by_node("No topology information available\n").empty());
  // Switches above each other end.
  const auto circle = switches_by_node(
      "SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b\n");
  CHECK(circle.at("n1").ends_with("b.a"));
}

TEST_CASE("neighbours in rank are neighbours in the network, and the first node stays the first") {
  const std::vector<PlacedNode> nodes{
      {"n1", "core.leaf1"}, {"n2", "core.leaf2"}, {"n3", "core.leaf1"}, {"n4", "core.leaf2"}};
  CHECK(in_topology_order(nodes) == std::vector<std::string>{"n1", "n3", "n2", "n4"});
  // By each level: all below one spine before those below the next.
  CHECK(in_topology_order({{"n1", "s2.l3"}, {"n2", "s1.l1"}, {"n3", "s2.l4"}, {"n4", "s1.l2"},
            {"n5", "s2.l3"}, {"n6", "s1.l1"}}) ==
      std::vector<std::string>{"n1", "n5", "n3", "n2", "n6", "n4"});
  CHECK(in_topology_order({{"n2", "leaf2"}, {"n1", "leaf1"}}) ==
      std::vector<std::string>{"n2", "n1"});
  // Where one place is not known nobody moves.
  CHECK(in_topology_order({{"n1", "a"}, {"n2", ""}, {"n3", "a"}}) ==
      std::vector<std::string>{"n1", "n2", "n3"});
}
