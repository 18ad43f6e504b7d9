// SPDX-License-Identifier: Apache-2.0
#include "attempt/network_check.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

using namespace shardsweep;

namespace {

/// Nodes n01 … whose network has a speed; two have that of the slower one.
struct Network {
  LaneLimits limits{.check_memory = 0.5, .check_allreduce = 0.7};
  CheckOrder order;
  std::map<std::string, double> speed;
  std::map<std::string, NodeFacts> facts;
  std::map<std::string, int> partners;
  int rounds = 0;

  explicit Network(int nodes) {
    for (int at = 1; at <= nodes; ++at) {
      const std::string name = fmt::format("n{:02}", at);
      speed[name] = 10e9;
      facts[name] = {.device = "CPU", .host_free = 0.9, .meet = name + ":7"};
    }
  }
  /// 0: nobody reaches it.
  Network& slow(int node, double of = 1e9) {
    speed[fmt::format("n{:02}", node)] = of;
    return *this;
  }
  CheckVerdict judge() {
    NetworkCheck check(limits, order, facts);
    for (auto pairs = check.next(); !pairs.empty(); pairs = check.next()) {
      ++rounds;
      for (const NodePair& pair : pairs) {
        CHECK(pair_of(encode_pairs(pairs), pair.second) == pair);
        measure(check, pair);
      }
      CHECK(check.all_answered());
    }
    return judge_checks(limits, order, check.facts());
  }
  void measure(NetworkCheck& check, const NodePair& pair) {
    CHECK(pair.meet == pair.first + ":7");
    ++partners[pair.first];
    ++partners[pair.second];
    NodeFacts said;
    said.busbw_bytes_per_s = std::min(speed.at(pair.first), speed.at(pair.second));
    if (said.busbw_bytes_per_s == 0) said.wrong = {"allreduce: ended with 13"};
    check.take(pair.first, check.round(), said);
    CHECK(!check.all_answered());
    said.busbw_bytes_per_s = 0;
    check.take(pair.second, check.round(), said);
  }
  std::vector<std::string> blamed() {
    std::vector<std::string> names;
    for (const auto& [name, verdict] : judge().nodes) {
      if (verdict.blamed) names.push_back(name);
    }
    return names;
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("healthy nodes meet both neighbours of a ring, in two rounds or three") {
  for (const int nodes : {3, 4, 7, 8, 33}) {
    Network network(nodes);
    CHECK(network.judge().passed());
    CHECK(network.rounds == (nodes % 2 == 0 ? 2 : 3));
    CHECK(network.partners.size() == static_cast<std::size_t>(nodes));
    for (const auto& [name, count] : network.partners)
      CHECK(count == 2);
  }
}

TEST_CASE("each node whose network is slow is found alone, whoever its partners were") {
  for (const int nodes : {3, 4, 5, 8}) {
    for (int at = 1; at <= nodes; ++at) {
      const Names wanted{fmt::format("n{:02}", at)};
      CHECK(Network(nodes).slow(at).blamed() == wanted);
      CHECK(Network(nodes).slow(at, 0).blamed() == wanted);
    }
  }
}

TEST_CASE("a good node between two slow ones is not taken for one of them") {
  CHECK(Network(8).slow(3).slow(5).blamed() == Names{"n03", "n05"});
  CHECK(Network(8).slow(3, 0).slow(5, 0).blamed() == Names{"n03", "n05"});
  CHECK(Network(7).slow(1).slow(6).blamed() == Names{"n01", "n06"});
}

TEST_CASE("of two nodes alone both are suspects, and none is blamed") {
  Network two(2);
  two.order.usual_busbw = {{"CPU", 10e9}};
  const CheckVerdict verdict = two.slow(2).judge();
  CHECK(two.rounds == 1);
  CHECK(verdict.nodes.at("n01").suspected);
  CHECK(verdict.nodes.at("n02").suspected);
  CHECK(!verdict.nodes.at("n01").blamed);
  CHECK(verdict.why() ==
      "the network between n01 and n02 is slow; which of the two is to blame is unknown: "
      "allreduce: 1 GB/s, 0.10 of the usual 10 (at least 0.70 is required)");
}

TEST_CASE("one that has failed another check takes no part") {
  Network network(4);
  network.facts.at("n02").host_free = 0.1;
  CHECK(network.blamed() == Names{"n02"});
  CHECK(!network.partners.contains("n02"));
  CHECK(network.partners.at("n01") == 2);
  Network pair(2);
  pair.facts.at("n02").wrong = {"home: can't be written"};
  const CheckVerdict verdict = pair.judge();
  CHECK(pair.rounds == 0);
  CHECK(verdict.nodes.at("n01").unmade ==
      Names{"allreduce: fewer than two of the nodes have passed their other checks"});
  Network one(1);
  CHECK(one.judge().nodes.at("n01").unmade ==
      Names{"allreduce: needs two nodes, each with its own node agent"});
}

TEST_CASE("a node that gives no answer in its rounds is named, its partners are not") {
  Network network(4);
  NetworkCheck check(network.limits, network.order, network.facts);
  for (auto pairs = check.next(); !pairs.empty(); pairs = check.next()) {
    for (const NodePair& pair : pairs) {
      NodeFacts said;
      const bool dead = pair.first == "n03" || pair.second == "n03";
      said.busbw_bytes_per_s = dead ? 0 : 10e9;
      if (dead) said.wrong = {"allreduce: ended with 13"};
      for (const std::string& name : {pair.first, pair.second}) {
        // Of an earlier round: too late.
        check.take(name, check.round() - 1, said);
        if (name != "n03") check.take(name, check.round(), said);
      }
    }
  }
  const CheckVerdict verdict = judge_checks(network.limits, network.order, check.facts());
  CHECK(verdict.nodes.at("n03").blamed);
  CHECK(verdict.nodes.at("n03").failed.front().starts_with("allreduce: no answer from n03 with"));
  CHECK(!verdict.nodes.at("n02").blamed);
  CHECK(!verdict.nodes.at("n04").blamed);
}

TEST_CASE("a node that can't make the check is named for that, and fails nothing") {
  Network network(4);
  NetworkCheck check(network.limits, network.order, network.facts);
  for (auto pairs = check.next(); !pairs.empty(); pairs = check.next()) {
    for (const NodePair& pair : pairs) {
      for (const std::string& name : {pair.first, pair.second}) {
        NodeFacts said;
        said.unmade = {"allreduce: no microbenchmark exists for the GPUs of this node"};
        check.take(name, check.round(), said);
      }
    }
  }
  const CheckVerdict verdict = judge_checks(network.limits, network.order, check.facts());
  CHECK(verdict.passed());
  for (const auto& [name, its] : verdict.nodes)
    CHECK(its.unmade == Names{"allreduce: no microbenchmark exists for the GPUs of this node"});
}
