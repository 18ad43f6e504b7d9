// SPDX-License-Identifier: Apache-2.0
#include "attempt/node_verdict.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

struct Nodes {
  LaneLimits limits{.check_memory = 0.5, .check_gemm = 0.8, .check_clocks = 0.9};
  CheckOrder order{.gpu_slack_bytes = 1e9};
  std::map<std::string, NodeFacts> facts;

  NodeFacts& node(const std::string& name, double gflops = 100, double free = 0.9) {
    NodeFacts& one = facts[name];
    one = {.device = "H100", .gemm_flops = gflops * 1e9, .host_free = free};
    return one;
  }
  [[nodiscard]] CheckVerdict judge() const { return judge_checks(limits, order, facts); }
  [[nodiscard]] std::string failed(const std::string& name) const {
    return sentences(judge().nodes.at(name).failed);
  }
  [[nodiscard]] bool blamed(const std::string& name) const { return judge().nodes.at(name).blamed; }
};

}  // namespace

TEST_CASE("healthy nodes pass, and nobody is blamed") {
  Nodes nodes;
  for (const char* const name : {"n1", "n2", "n3", "n4"})
    nodes.node(name);
  CHECK(nodes.judge().passed());
  CHECK(nodes.judge().why().empty());
  CHECK(!nodes.blamed("n1"));
}

TEST_CASE("the usual speed is the median of three, of those that were ever checked first") {
  CHECK(usual_of({1, 2}) == 0);
  CHECK(usual_of({3, 1, 2}) == 2);
  CHECK(usual_of({4, 1, 2, 3}) == 2.5);
  Nodes nodes;
  nodes.node("n1");
  nodes.node("n2", 50);
  // Two are no median: what is not known can't be judged, and that is said.
  CHECK(nodes.judge().passed());
  CHECK(sentences(nodes.judge().nodes.at("n2").unmade) ==
      "gemm: 50 GFLOP/s, not judged, because fewer than 3 nodes with this device were measured");
  nodes.node("n3");
  CHECK(
      nodes.failed("n2") == "gemm: 50 GFLOP/s, 0.50 of the usual 100 (at least 0.80 is required)");
  CHECK(nodes.blamed("n2"));
  CHECK(!nodes.blamed("n1"));
  CHECK(nodes.judge().why() ==
      "node n2 fails its check: gemm: 50 GFLOP/s, 0.50 of the usual 100 (at least 0.80 is "
      "required)");
  nodes.order.usual_gemm = {{"H100", 50e9}};
  CHECK(nodes.judge().passed());
  // Another device has another median.
  nodes.order.usual_gemm = {{"A100", 1e9}};
  CHECK(nodes.blamed("n2"));
}

TEST_CASE("a share at the limit is well, and a check with 0 is not made") {
  Nodes nodes;
  nodes.order.usual_gemm = {{"H100", 100e9}};
  nodes.node("n1", 80, 0.5);
  CHECK(nodes.judge().passed());
  nodes.node("n1", 79, 0.49);
  CHECK(nodes.failed("n1") ==
      "memory: 49% of the host's memory is free, at least 50% is required; gemm: 79 GFLOP/s, 0.79 "
      "of the usual 100 (at least 0.80 is required)");
  nodes.limits = {};
  CHECK(nodes.judge().passed());
}

TEST_CASE("one node alone is to blame for what it fails, absolutely or beside the fleet") {
  Nodes nodes;
  nodes.node("n1", 30, 0.1);
  CHECK(nodes.failed("n1") == "memory: 10% of the host's memory is free, at least 50% is required");
  CHECK(nodes.blamed("n1"));
  nodes.order.usual_gemm = {{"H100", 100e9}};
  CHECK(nodes.judge().nodes.at("n1").failed.size() == 2);
}

TEST_CASE("what all of several nodes fail is the site's and no node's") {
  Nodes nodes;
  for (const char* const name : {"n1", "n2", "n3"})
    nodes.node(name, 30);
  // All of them slow beside what was usual.
  nodes.order.usual_gemm = {{"H100", 100e9}};
  const CheckVerdict all = nodes.judge();
  CHECK(!all.passed());
  CHECK(all.site ==
      "all 3 nodes fail their check, so no node is to blame: gemm: 30 GFLOP/s, 0.30 of the usual "
      "100 (at least 0.80 is required) (on n1)");
  CHECK(all.why() == all.site);
  CHECK(!nodes.blamed("n1"));
  // One of them has a trouble of its own besides.
  nodes.facts.at("n2").wrong = {"home: can't be written: Read-only file system"};
  CHECK(nodes.blamed("n2"));
  CHECK(!nodes.blamed("n3"));
  // Each has another: each is to blame.
  nodes.order.usual_gemm.clear();
  nodes.facts.at("n1").wrong = {"programs: /x is not there"};
  nodes.facts.at("n3").wrong = {"before: 'true' took longer than 1 s"};
  CHECK(nodes.judge().site.empty());
  CHECK(nodes.blamed("n1"));
  CHECK(nodes.blamed("n3"));
}

TEST_CASE("GPU memory in use and a low clock are the node's") {
  Nodes nodes;
  nodes.node("n1").gpu_used_bytes = 4e9;
  nodes.node("n2").gpu_used_bytes = 9e8;
  CHECK(nodes.failed("n1") ==
      "gpu memory: 3.7 GiB of a GPU's memory are in use before anything runs");
  CHECK(!nodes.blamed("n2"));
  nodes.order.usual_clock = {{"H100", 1980}};
  nodes.facts.at("n2").sm_clock_mhz = 1200;
  CHECK(
      nodes.failed("n2") == "clocks: 1200 MHz, 0.61 of the usual 1980 (at least 0.90 is required)");
}

TEST_CASE("what a node can't check is named and fails nothing") {
  Nodes nodes;
  nodes.node("n1") = {.device = "CPU", .unmade = {"clocks: no NVML on this node"}};
  CHECK(nodes.judge().passed());
  CHECK(nodes.judge().nodes.at("n1").unmade ==
      std::vector<std::string>{"clocks: no NVML on this node"});
}

TEST_CASE("what the cluster file says stands in for a median that is not known") {
  Nodes nodes;
  nodes.order.stated_gemm = 100e9;
  nodes.node("n1", 79);
  CHECK(nodes.blamed("n1"));
  nodes.order.usual_gemm = {{"H100", 90e9}};
  CHECK(nodes.judge().passed());
}

TEST_CASE("memory that all nodes of a kind lack is none of one's faults") {
  Nodes nodes;
  nodes.order.usual_free = {{"H100", 0.4}};
  nodes.node("n1", 100, 0.2);
  CHECK(nodes.judge().passed());
  nodes.node("n1", 100, 0.19);
  CHECK(nodes.failed("n1") == "memory: 19% of the host's memory is free, at least 20% is required");
}
