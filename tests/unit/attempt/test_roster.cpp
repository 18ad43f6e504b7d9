// SPDX-License-Identifier: Apache-2.0
#include "attempt/roster.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

constexpr double limit_s = 60;
constexpr double lease_s = 15;

NodeReady ready(const std::string& node, std::int32_t index, const std::string& switches = "") {
  return {.node = node, .host = node, .pid = 1, .index = index, .switches = switches};
}

void come(NodeRoster& nodes, double now_s, const NodeReady& one) {
  nodes.hear(one.node, now_s);
  nodes.come(one);
}

std::string why_of(const std::optional<NodeLoss>& loss) {
  return loss ? loss->why : "";
}

}  // namespace

TEST_CASE("a node that says nothing for its lease is lost since it fell silent") {
  NodeRoster nodes(2, {"n1", "n2"}, false, 0);
  come(nodes, 1, ready("n1", 0));
  CHECK_FALSE(nodes.is_complete());
  come(nodes, 1, ready("n2", 1));
  CHECK(nodes.is_complete());
  CHECK(nodes.hear("n1", 10));
  CHECK_FALSE(nodes.loss(16, limit_s, lease_s).has_value());
  const auto loss = nodes.loss(17, limit_s, lease_s);
  CHECK(why_of(loss) == "node n2 sent nothing for 16.0 s");
  CHECK(loss->node == "n2");
  CHECK(loss->silent_s == 16);
  SUBCASE("with what it had said before") {
    nodes.leave("n2", "its guard has ended");
    CHECK(why_of(nodes.loss(17, limit_s, lease_s)) ==
        "its guard has ended; node n2 sent nothing for 16.0 s");
  }
  SUBCASE("but not for the time in which the lead stood still") {
    nodes.stretch(10);
    CHECK_FALSE(nodes.loss(17, limit_s, lease_s).has_value());
  }
}

TEST_CASE("nodes that never came are named if others have") {
  NodeRoster nodes(3, {"n1", "n2", "n3"}, false, 0);
  CHECK_FALSE(nodes.loss(60, limit_s, lease_s).has_value());
  CHECK(why_of(nodes.loss(61, limit_s, lease_s)) == "3 of 3 node agents did not start");
  CHECK(nodes.loss(61, limit_s, lease_s)->absent.empty());
  come(nodes, 61, ready("n2", 1));
  const auto loss = nodes.loss(61, limit_s, lease_s);
  CHECK(why_of(loss) == "2 of 3 node agents did not start: n1, n3");
  CHECK(loss->absent == std::vector<std::string>{"n1", "n3"});
}

TEST_CASE("of nodes that all end at once the one that had begun to leave is the cause") {
  NodeRoster alone(1, {}, false, 0);
  CHECK(alone.loss_of_all(false).why == "no node agent has started");
  come(alone, 1, ready("n1", 0));
  CHECK(alone.loss_of_all(false).why == "the node agent of n1 has ended");
  CHECK(alone.loss_of_all(false).node == "n1");
  NodeRoster two(2, {}, false, 0);
  come(two, 1, ready("n1", 0));
  come(two, 1, ready("n2", 1));
  CHECK(two.loss_of_all(false).node.empty());
  two.leave("n2", "GPU memory is still in use");
  CHECK(
      two.loss_of_all(false).why == "GPU memory is still in use; the other node agents ended too");
  CHECK(two.loss_of_all(false).node == "n2");
}

TEST_CASE("an agent that srun kills since another did not start speaks against no node") {
  NodeRoster nodes(2, {"n1", "n2"}, false, 0);
  come(nodes, 1, ready("n1", 0));
  nodes.leave("n1", "the node agent of n1 was ended by SIGKILL", true);
  CHECK(nodes.loss_of_all(false).node.empty());
  come(nodes, 2, ready("n2", 1));
  CHECK(nodes.loss_of_all(false).node == "n1");
  CHECK(nodes.loss_of_all(true).node.empty());
  CHECK(nodes.holds("n2"));
  CHECK_FALSE(nodes.holds("n7"));
}

TEST_CASE("a node whose agents are killed all at once has not failed") {
  NodeRoster alone(1, {}, false, 0);
  come(alone, 1, ready("n1", 0));
  const NodeLoss loss = alone.loss_of_all(true);
  CHECK(loss.killed);
  CHECK(loss.node == "n1");
  CHECK(loss.why ==
      "the step of the node agent on n1 was killed (SIGKILL): by scancel, or by the kernel because "
      "the memory was used up");
  alone.leave("n1", "GPU memory is still in use");
  CHECK_FALSE(alone.loss_of_all(true).killed);
  // The guard lived a moment longer than its agent, and was killed too; or it was not.
  alone.leave("n1", "the node agent of n1 was ended by SIGKILL", true);
  CHECK(alone.loss_of_all(true).killed);
  CHECK_FALSE(alone.loss_of_all(false).killed);
  CHECK(alone.loss_of_all(false).why == "the node agent of n1 was ended by SIGKILL");
}

TEST_CASE("agents that left while the lead stood still speak against no node") {
  for (const int agents : {1, 2}) {
    CAPTURE(agents);
    NodeRoster nodes(agents, {}, false, 0);
    if (agents == 2) come(nodes, 1, ready("n2", 1));
    nodes.stretch(30);
    nodes.leave_alone(31 + lease_s);
    come(nodes, 31, ready("n1", 0));  // said before it left
    CHECK(nodes.loss_of_all(false).node.empty());
    CHECK(nodes.loss_of_all(false).why ==
        "the lead stood still for so long that its node agents have ended");
    CHECK(nodes.loss(50, limit_s, lease_s)->node.empty());
    // One that lives on is to blame for what comes later.
    for (double now_s = 32; now_s < 60; ++now_s) {
      nodes.hear("n1", now_s);
      if (agents == 2) nodes.hear("n2", now_s);
    }
    CHECK(nodes.loss(76, limit_s, lease_s)->node == "n1");
  }
}

TEST_CASE("nodes are placed once by what is between them") {
  NodeRoster nodes(3, {}, false, 0);
  come(nodes, 1, ready("n1", 0, "core.a"));
  come(nodes, 1, ready("n2", 1, "core.b"));
  CHECK(nodes.place().empty());
  come(nodes, 1, ready("n3", 2, "core.a"));
  CHECK(nodes.place() == std::vector<Place>{{"n3", 1}, {"n2", 2}});
  CHECK(nodes.place().empty());
  CHECK(nodes.in_order() == std::vector<std::string>{"n1", "n3", "n2"});
  CHECK(nodes.names_by_index() ==
      std::map<std::int32_t, std::string>{{0, "n1"}, {1, "n3"}, {2, "n2"}});
}

TEST_CASE("one node agent speaks for all nodes of a step") {
  NodeRoster nodes(1, {"n1", "n2", "n3"}, true, 0);
  come(nodes, 1, ready("n1", 0));
  CHECK(nodes.is_complete());
  CHECK(nodes.place().empty());
  CHECK(nodes.in_order().empty());
  CHECK(nodes.names_by_index().at(2) == "n3");
  CHECK(nodes.place_by({{"n1", "core.a"}, {"n2", "core.b"}, {"n3", "core.a"}}) ==
      std::vector<Place>{{"n1", 0}, {"n3", 1}, {"n2", 2}});
  CHECK(nodes.place_by({}).empty());
}
