// SPDX-License-Identifier: Apache-2.0
// The check of nodes as the daemon sees it: what a lead has found becomes rows beside the
// controls, evidence against the node, and the usual speed of the next check.
#include "fleet/control.hpp"
#include "fleet/nodes.hpp"
#include "fleet/starts.hpp"
#include "unit/sweep_fixture.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Sweep 1 with two allocations of two nodes that have been claimed.
struct CheckedCase : Case {
  CheckedCase() {
    rows.sweeps.at(1).backend = Backend::slurm;
    for (AllocationId id = 1; id <= 2; ++id) {
      AllocationRow& row = rows.allocations[id];
      row = {.id = id, .sweep = 1, .token = std::to_string(id), .nodes = 2};
      row.claimed_at = noon;
      row.backend = Backend::slurm;
      rows.nodes_of[id] = {"n" + std::to_string(2 * id), "n" + std::to_string(2 * id + 1)};
    }
  }
  AllocationRow& job(AllocationId id) { return rows.allocations.at(id); }
  void checked(AllocationId id, const std::string& node, double gflops, const std::string& why = "",
      bool blamed = true) {
    take_checked(fold(), job(id),
        {.node = node,
            .facts = {.device = "H100", .gemm_flops = gflops, .seconds = 2},
            .detail = why,
            .blamed = !why.empty() && blamed});
    if (!why.empty() && blamed)
      add_evidence(fold(), node, {.at = noon, .kind = EvidenceKind::check, .detail = why});
  }
  [[nodiscard]] std::map<std::string, double> usual() const {
    return usual_speeds(world, &ControlRow::gemm_flops);
  }
};

}  // namespace

TEST_CASE("a checked node is a row beside the controls, once, and is no control") {
  CheckedCase c;
  c.checked(1, "n2", 100);
  c.checked(1, "n2", 70);
  c.checked(1, "n3", 90);
  REQUIRE(c.rows.controls.size() == 2);
  CHECK(c.rows.controls.at(0).node == "n2");
  CHECK(c.rows.controls.at(0).gemm_flops == 100);
  CHECK(!c.rows.controls.at(0).measured());
  // The control is still to come, and none of these is held against it.
  CHECK(control_due(c.world, c.job(1)) == ControlTime::start);
  take_control(c.fold(), c.policy, c.job(1), ControlTime::start, {.busbw_bytes_per_s = 5}, "");
  CHECK(!control_is_off(c.world, c.policy, 1));
}

TEST_CASE("the usual speed is the median over nodes, of each the last") {
  CheckedCase c;
  c.checked(1, "n2", 100);
  c.checked(1, "n3", 60);
  CHECK(c.usual().empty());
  c.checked(2, "n4", 90);
  CHECK(c.usual() == std::map<std::string, double>{{"H100", 90}});
  // A node that is checked again and again is one node.
  c.checked(2, "n2", 20);
  CHECK(c.usual() == std::map<std::string, double>{{"H100", 60}});
}

TEST_CASE("a node that has failed its check is out, and its allocation gets nothing more") {
  CheckedCase c;
  c.checked(1, "n2", 30, "gemm: 30 GFLOP/s");
  c.checked(1, "n3", 100);
  judge_nodes(c.fold(), c.policy);
  CHECK(nodes_out(c.world) == std::vector<std::string>{"n2"});
  CHECK(c.rows.nodes.at("n2").reason == "check: gemm: 30 GFLOP/s");
  CHECK(holds_node_out(c.world, 1));
  CHECK(!holds_node_out(c.world, 2));
}

TEST_CASE("a start that failed for a bad node is the node's, one that all fail the sweep's") {
  CheckedCase c;
  c.checked(1, "n2", 30, "gemm: 30 GFLOP/s");
  c.checked(2, "n4", 30, "memory: all", false);
  for (const AllocationId id : {1, 2})
    c.job(id).draining = c.job(id).gave_back = c.job(id).said_bye = true;
  CHECK(has_bad_node(c.world, 1));
  CHECK(!has_bad_node(c.world, 2));
  CHECK(judge_start(c.job(1), c.world, noon) == Start::failed_node);
  CHECK(judge_start(c.job(2), c.world, noon) == Start::failed);
  // Drained as soon as the first verdict was there, before the last one made it give up.
  for (const AllocationId id : {1, 2})
    c.job(id).gave_back = false;
  CHECK(judge_start(c.job(1), c.world, noon) == Start::failed_node);
  CHECK(judge_start(c.job(2), c.world, noon) == Start::unwanted);
}

TEST_CASE("a start that failed for nodes that were let back in since says nothing") {
  CheckedCase c;
  c.checked(1, "n2", 30, "gemm: 30 GFLOP/s");
  c.checked(1, "n3", 30, "gemm: 30 GFLOP/s");
  judge_nodes(c.fold(), c.policy);
  c.job(1).draining = c.job(1).gave_back = c.job(1).said_bye = true;
  clear_node({c.world, noon + 1}, c.rows.nodes.at("n2"), "somebody");
  CHECK(judge_start(c.job(1), c.world, noon) == Start::failed_node);
  clear_node({c.world, noon + 1}, c.rows.nodes.at("n3"), "somebody");
  CHECK(judge_start(c.job(1), c.world, noon) == Start::unwanted);
}

TEST_CASE("this machine fails its check too") {
  CheckedCase c;
  c.checked(1, std::string(local_node), 30, "memory: 1% is free");
  judge_nodes(c.fold(), c.policy);
  CHECK(nodes_out(c.world) == std::vector<std::string>{std::string(local_node)});
}

TEST_CASE("a slow network between two nodes is a suspicion of both, and twice an exclusion") {
  CheckedCase c;
  const std::string why = "allreduce: 1 GB/s, 0.10 of the usual 10";
  const auto suspect = [&](AllocationId id, const std::string& node) {
    c.checked(id, node, 100, why, false);
    add_evidence(c.fold(), node, {.at = noon, .kind = EvidenceKind::slow_pair, .detail = why});
  };
  suspect(1, "n2");
  suspect(1, "n3");
  judge_nodes(c.fold(), c.policy);
  CHECK(nodes_out(c.world).empty());
  // It is no failure of the sweep's.
  c.job(1).draining = c.job(1).gave_back = c.job(1).said_bye = true;
  CHECK(judge_start(c.job(1), c.world, noon) == Start::failed_node);
  suspect(2, "n3");
  suspect(2, "n5");
  judge_nodes(c.fold(), c.policy);
  CHECK(nodes_out(c.world) == std::vector<std::string>{"n3"});
}

TEST_CASE("the all-reduce of a check is no control of the network") {
  CheckedCase c;
  take_checked(
      c.fold(), c.job(1), {.node = "n2", .facts = {.device = "H100", .busbw_bytes_per_s = 50}});
  take_control(c.fold(), c.policy, c.job(1), ControlTime::start, {.busbw_bytes_per_s = 5}, "");
  CHECK(c.rows.controls.back().network_ratio == 1);
  CHECK(c.rows.controls.front().network_ratio == 0);
  CHECK(usual_speeds(c.world, &ControlRow::busbw_bytes_per_s).empty());
}
