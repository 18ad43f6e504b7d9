// SPDX-License-Identifier: Apache-2.0
#include "fleet/nodes.hpp"
#include "fleet/stragglers.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

using Names = std::vector<std::string>;

/// One trial after the other, each measured in an allocation of the nodes that are given.
struct StragglerCase : Case {
  AllocationId last = 100;

  StragglerCase() {
    rows.sweeps.at(1).backend = Backend::slurm;
    input.sweeps[1].backend = Backend::slurm;
  }
  /// `busy_ms`: of one rank on each node, all of one stage.
  void measure(const Names& nodes, std::vector<double> busy_ms, Mark mark = Mark::none) {
    const TrialId id = ++last;
    trial(id, 1).nodes = static_cast<std::int32_t>(nodes.size());
    rows.allocations[id] = {.id = id, .sweep = 1, .token = std::to_string(id)};
    rows.attempts[id] = {.id = id, .trial = id, .number = 1, .allocation = id};
    rows.nodes_of[id] = nodes;
    RecordsSummary records;
    records.result = AddMeasurement{};
    records.own_work = {std::move(busy_ms), std::vector<std::int32_t>(nodes.size(), 0)};
    Ended ended{.attempt = id, .ending = {.outcome = Outcome::completed, .mark = mark}};
    ended.nodes = nodes;
    fold_line(fold(), policy, id, {1, noon, ended}, records);
  }
  std::vector<NodeCharge> findings(const std::string& node) {
    std::vector<NodeCharge> found;
    for (const NodeCharge& one : rows.nodes[node].evidence) {
      if (one.kind == EvidenceKind::slow) found.push_back(one);
    }
    return found;
  }
  std::size_t events() const {
    return static_cast<std::size_t>(
        std::count_if(world.changes().begin(), world.changes().end(), [](const Change& change) {
          const auto* event = std::get_if<AddEvent>(&change);
          return event != nullptr && event->kind == EventKind::node_slow;
        }));
  }
};

double ratio_of(const std::vector<NodePace>& all, const std::string& node) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const NodePace& pace) { return pace.node == node; });
  return found == all.end() ? 0 : found->ratio;
}

}  // namespace

TEST_CASE("a node is compared by its slowest rank with nodes of the same stage") {
  // Two ranks on each of four nodes; two stages of two nodes each, the second with more work.
  const OwnWork work{{10, 10, 10, 15, 40, 40, 40, 41}, {0, 0, 0, 0, 1, 1, 1, 1}};
  const auto all = paces(work, {"a", "b", "c", "d"});
  REQUIRE(all.size() == 4);
  CHECK(ratio_of(all, "a") == doctest::Approx(10.0 / 15));
  CHECK(ratio_of(all, "b") == doctest::Approx(1.5));
  CHECK(ratio_of(all, "d") == doctest::Approx(41.0 / 40));
  CHECK(all[1].peers == Names{"a"});
  // Where a node holds ranks of two stages, the worse one says how it does.
  const auto mixed = paces({{10, 30, 10, 60}, {0, 1, 0, 1}}, {"a", "b"});
  CHECK(ratio_of(mixed, "b") == doctest::Approx(2));
  CHECK(ratio_of(mixed, "a") == doctest::Approx(1));
}

TEST_CASE("nothing is compared where a stage is a node's own or times are missing") {
  CHECK(paces({{10, 40}, {0, 1}}, {"a", "b"}).empty());
  CHECK(paces({}, {"a", "b"}).empty());
  CHECK(paces({{10, 10, 10}, {0, 0, 0}}, {"a", "b"}).empty());
  CHECK(paces({{10, 10}, {0}}, {"a", "b"}).empty());
  CHECK(paces({{10, 10}, {0, 0}}, {"a"}).empty());
  CHECK(paces({{0, 0}, {0, 0}}, {"a", "b"}).empty());
}

TEST_CASE("a node that is slow beside others in three attempts is found once") {
  StragglerCase c;
  c.measure({"a", "b", "c"}, {10, 13, 10});
  c.measure({"a", "b", "c"}, {20, 27, 21});
  CHECK(c.findings("b").empty());
  c.measure({"a", "b", "c"}, {5, 6.5, 5});
  REQUIRE(c.findings("b").size() == 1);
  CHECK(c.findings("b")[0].detail ==
      "needs 1.30 times as long as its peers for the same work, in 3 of 3 attempts beside a, "
      "c");
  CHECK(c.findings("b")[0].ratio == doctest::Approx(1.3));
  c.measure({"a", "b", "c"}, {5, 6.5, 5});
  CHECK(c.findings("b").size() == 1);
  CHECK(c.events() == 1);
  for (const char* peer : {"a", "c"})
    CHECK(c.rows.nodes[peer].evidence.empty());
  // It is said; the node stays in use.
  c.decide();
  CHECK(c.rows.nodes["b"].state == NodeState::trusted);
  // As the lead's line is not counted twice, nor is what it says of its nodes.
  CHECK(c.rows.nodes["b"].evidence.size() == 5);
}

TEST_CASE("one peer may be a fast one and one slow attempt an accident") {
  StragglerCase c;
  for (int i = 0; i < 5; ++i)
    c.measure({"a", "b"}, {10, 13});
  CHECK(c.findings("b").empty());
  // Beside another one it is the same: now it is the node.
  c.measure({"b", "c"}, {13, 10});
  CHECK(c.findings("b").size() == 1);

  StragglerCase other;
  for (int i = 0; i < 4; ++i) {
    other.measure({"a", "b", "c"}, {10, 13, 10});
    other.measure({"a", "b", "c"}, {10, 10, 10});
    other.measure({"a", "b", "c"}, {10, 11, 10});
  }
  CHECK(other.findings("b").empty());
}

TEST_CASE("what was disturbed says nothing about who is slow") {
  StragglerCase c;
  for (int i = 0; i < 5; ++i)
    c.measure({"a", "b", "c"}, {10, 13, 10}, Mark::contaminated);
  CHECK(c.rows.nodes["b"].evidence.empty());
}

TEST_CASE("a slow node is excluded where the sweep asks for it and comes back by a probe") {
  StragglerCase c;
  c.input.sweeps[1].policy.slow_nodes = static_cast<std::int64_t>(SlowNodes::exclude);
  for (int i = 0; i < 3; ++i)
    c.measure({"a", "b", "c"}, {10, 13, 10});
  c.trial(1, 1);
  c.decide();
  REQUIRE(c.rows.nodes["b"].state == NodeState::quarantined);
  CHECK(c.rows.nodes["b"].reason.starts_with("slow: needs 1.30 times"));
  CHECK(nodes_out(c.world) == Names{"b"});
}

TEST_CASE("a node that was slow here and is measured elsewhere is no suspect") {
  StragglerCase c;
  c.measure({"a", "b", "c"}, {10, 13, 10});
  AttemptRow again{.id = 900, .trial = c.last, .number = 2, .allocation = 900};
  c.rows.nodes_of[900] = {"d"};
  suspect_others(c.fold(), again);
  CHECK(c.rows.nodes["b"].evidence.size() == 1);
}

TEST_CASE("a slow node without a name is nobody") {
  StragglerCase c;
  c.measure({"", "n1", "n2"}, {150, 100, 100});
  CHECK(c.events() == 0);
  CHECK(c.rows.nodes.count("") == 0);
}

TEST_CASE("evidence of slowness is forgotten in time") {
  StragglerCase c;
  for (int i = 0; i < 3; ++i)
    c.measure({"a", "b", "c"}, {10, 13, 10});
  const auto week = static_cast<Timestamp>(c.policy.remember_s * 1e6);
  CHECK(slowness(c.rows.nodes["b"], c.policy, noon + week));
  CHECK(!slowness(c.rows.nodes["b"], c.policy, noon + week + 1));
}
