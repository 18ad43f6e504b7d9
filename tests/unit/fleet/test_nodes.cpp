// SPDX-License-Identifier: Apache-2.0
#include "fleet/nodes.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Sweep 1 on a cluster, with trials on two nodes each and one allocation with two nodes.
struct NodeCase : Case {
  explicit NodeCase(int trials = 3) {
    rows.sweeps.at(1).backend = Backend::slurm;
    input.sweeps[1].backend = Backend::slurm;
    for (TrialId id = 1; id <= trials; ++id)
      trial(id, 1, "lane" + std::to_string(id)).nodes = 2;
    decide();
    take_nodes(1, {"n1", "n2"});
  }
  AllocationRow& job(AllocationId id) { return rows.allocations.at(id); }
  void take_nodes(AllocationId id, const std::vector<std::string>& nodes) {
    say(id, Claimed{.host = "h", .job_id = "7"});
    for (const std::string& node : nodes)
      say(id, NodeSeen{node, "h", 1});
  }
  void say(AllocationId id, FromLeadBody body) {
    fold_line({world, input.now}, policy, id, {job(id).from_lead_n + 1, input.now, std::move(body)},
        RecordsSummary{});
  }
  void fail(AllocationId id, AttemptId attempt, Outcome outcome, const std::string& node,
      SaidBy source = SaidBy::agent, const std::string& cause = "because") {
    say(id, Started{attempt, "n"});
    say(id,
        Ended{.attempt = attempt,
            .ending = {.outcome = outcome, .cause = cause, .source = source, .node = node}});
  }
  /// Its runner on `node` meets a file system that may only be read.
  void meet_read_only(AllocationId id, AttemptId attempt, const std::string& node) {
    fail(id, attempt, Outcome::lost, node, attempt % 2 == 0 ? SaidBy::exit : SaidBy::runner,
        "rank 0: OSError: [Errno 30] Read-only file system: '/scratch/a'");
  }
  /// The first two trials are measured on nodes that no trial has seen.
  void measure_both_elsewhere() {
    decide();
    const AllocationId next = newest()->id;
    take_nodes(next, {"n3", "n4"});
    int measured = 0;
    for (auto& [id, attempt] : rows.attempts) {
      if (attempt.allocation != next || attempt.trial > 2) continue;
      ++measured;
      RecordsSummary records;
      records.result = AddMeasurement{};
      fold_line({world, input.now}, policy, next,
          {job(next).from_lead_n + 1, input.now,
              Ended{.attempt = id, .ending = {.outcome = Outcome::completed}}},
          records);
    }
    REQUIRE(measured == 2);
    decide();
  }
  void gone(AllocationId id) {
    job(id).job_state = JobState::ended;
    std::vector<Orphan> orphans;
    for (const AttemptId attempt : open_attempts(world, id))
      orphans.push_back({attempt, {}});
    fold_gone({world, input.now}, policy, id, orphans, "left");
  }
  /// Each node as often as it is suspect.
  std::vector<std::string> suspects() {
    std::vector<std::string> names;
    for (const auto& [name, node] : rows.nodes) {
      for (const NodeCharge& one : node.evidence)
        if (one.kind == EvidenceKind::suspect) names.push_back(name);
    }
    return names;
  }
  AllocationRow* newest() { return &rows.allocations.rbegin()->second; }
  NodeState state(const std::string& node) { return rows.nodes.at(node).state; }
  void wait(double seconds) { input.now += static_cast<Timestamp>(seconds * second); }
  template <class T>
  std::vector<T> of_kind() {
    std::vector<T> all;
    for (const Change& change : world.changes()) {
      if (const auto* one = std::get_if<T>(&change)) all.push_back(*one);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("a node failure excludes the node and is charged to nobody") {
  NodeCase c;
  c.fail(1, 1, Outcome::node_failure, "n2");
  c.decide();
  CHECK(c.state("n2") == NodeState::quarantined);
  CHECK(nodes_out(c.world) == std::vector<std::string>{"n2"});
  CHECK(c.rows.trials[1].state != State::ended);
  CHECK(c.rows.trials[1].charged == 0);
  CHECK(c.rows.trials[1].elsewhere == 1);
  // What holds the node gets no more work, and others are made for it.
  CHECK(c.job(1).draining);
  CHECK(c.of_kind<AddNodeEvidence>().size() == 1);
  CHECK(c.of_kind<AddNodeEvidence>()[0].evidence.kind == EvidenceKind::failed);
}

TEST_CASE("what its log says of a GPU is hardware and a finding counts by itself") {
  NodeCase c;
  c.fail(1, 1, Outcome::node_failure, "n1", SaidBy::log);
  CHECK(c.rows.nodes.at("n1").evidence.at(0).kind == EvidenceKind::hardware);
  c.say(1, FoundOnNode{"n2", EvidenceKind::dirty, "a process in state D"});
  c.decide();
  CHECK(nodes_out(c.world) == std::vector<std::string>{"n1", "n2"});
  CHECK(c.rows.nodes.at("n2").reason == "dirty: a process in state D");
}

TEST_CASE("a crash excludes no node until its trial is measured elsewhere more than once") {
  NodeCase c;
  std::string last = "comm_error";
  SUBCASE("a crash") {
    c.fail(1, 1, Outcome::crashed, "n1");
    c.fail(1, 2, Outcome::comm_error, "n1");
  }
  SUBCASE("a runner that could not write, though its node agent could") {
    c.meet_read_only(1, 1, "n1");
    c.meet_read_only(1, 2, "n1");
    last = "read-only";
  }
  c.decide();
  CHECK(nodes_out(c.world).empty());
  c.gone(1);
  c.measure_both_elsewhere();
  CHECK(nodes_out(c.world) == std::vector<std::string>{"n1"});
  CHECK(c.rows.nodes.at("n1").reason == "suspect: " + last + " here, measured elsewhere");
}

TEST_CASE("a file system that several nodes share makes none of them suspect") {
  NodeCase c;
  SUBCASE("one that stalls") {
    for (const AttemptId attempt : {1, 2})
      c.fail(
          1, attempt, Outcome::lost, "n1", SaidBy::runner, "LustreError: 11-0: operation failed");
  }
  SUBCASE("one that is full") {
    for (const AttemptId attempt : {1, 2})
      c.fail(1, attempt, Outcome::lost, "n1", SaidBy::exit, "OSError: No space left on device");
  }
  SUBCASE("one that is read-only on two nodes within minutes") {
    c.meet_read_only(1, 1, "n1");
    c.wait(200);
    c.meet_read_only(1, 2, "n2");
  }
  c.gone(1);
  c.measure_both_elsewhere();
  CHECK(c.suspects().empty());
}

TEST_CASE("nodes that are read-only at other times are suspect each") {
  NodeCase c;
  c.meet_read_only(1, 1, "n1");
  c.wait(3600);
  c.meet_read_only(1, 2, "n2");
  c.gone(1);
  c.measure_both_elsewhere();
  CHECK(c.suspects() == std::vector<std::string>{"n1", "n2"});
}

TEST_CASE("what a full disk has lost tells nothing of its node") {
  NodeCase c;
  c.fail(1, 1, Outcome::lost, "n1", SaidBy::agent);
  CHECK(c.of_kind<AddNodeEvidence>().empty());
}

TEST_CASE("a trial that takes three nodes with it is to blame and they come back") {
  NodeCase c(1);
  for (int round = 1; round <= 3; ++round) {
    const AllocationId job = c.newest()->id;
    if (round > 1) c.take_nodes(job, {"n" + std::to_string(round)});
    c.fail(job, round, Outcome::node_failure, "n" + std::to_string(round));
    c.gone(job);
    c.decide();
  }
  CHECK(c.rows.trials[1].state == State::ended);
  CHECK(c.rows.trials[1].outcome == Outcome::crashed);
  CHECK(nodes_out(c.world).empty());
  const auto ends = c.of_kind<SetTrial>();
  CHECK(ends.back().row.cause ==
      "failed on 3 distinct nodes (n1, n2, n3), so the layout is to blame; last: because");
}

TEST_CASE("after its time a node is tried by a short run and comes back when that is measured") {
  NodeCase c;
  c.fail(1, 1, Outcome::node_failure, "n2");
  c.gone(1);
  c.decide();
  CHECK_FALSE(probe_is_due(c.world, c.input.now));
  c.wait(c.policy.probe_after_s);
  CHECK(probe_is_due(c.world, c.input.now) ==
      std::any_of(c.rows.trials.begin(), c.rows.trials.end(),
          [](const auto& entry) { return entry.second.state == State::planned; }));
  c.trial(9, 1, "more").nodes = 2;
  for (auto& [id, allocation] : c.rows.allocations)
    allocation.draining = true;  // so that the trial waits
  CHECK(probe_is_due(c.world, c.input.now));
  c.decide();
  AllocationRow* probe = nullptr;
  for (auto& [id, allocation] : c.rows.allocations) {
    if (!allocation.probe_of.empty()) probe = &allocation;
  }
  REQUIRE(probe != nullptr);
  CHECK(probe->probe_of == "n2");
  CHECK(probe->nodes == 1);
  CHECK(c.state("n2") == NodeState::probation);
  CHECK(orders_for(c.world, *probe).probe);
  CHECK(orders_for(c.world, *probe).assign.empty());
  // Nothing else is assigned to it, and it is made once.
  const auto before = c.rows.allocations.size();
  c.decide();
  CHECK(c.rows.allocations.size() == before);
  c.take_nodes(probe->id, {"n2"});
  CHECK_FALSE(probe->draining);
  c.say(probe->id,
      Ended{.attempt = probe_attempt(*probe), .ending = {.outcome = Outcome::completed}});
  CHECK(c.state("n2") == NodeState::trusted);
  CHECK(c.rows.nodes.at("n2").evidence.empty());
  CHECK(orders_for(c.world, *probe).drain);
  c.gone(probe->id);
  CHECK(c.state("n2") == NodeState::trusted);
  REQUIRE(c.of_kind<EndProbe>().size() == 1);
  CHECK(c.of_kind<EndProbe>()[0].passed);
}

TEST_CASE("a short run that fails doubles the time and one that nobody needs is put off") {
  NodeCase c;
  NodeRow node{.node = "n2", .state = NodeState::probation};
  c.rows.nodes["n2"] = node;
  AllocationRow probe{.id = 50, .sweep = 1, .probe_of = "n2"};
  const Fold fold{c.world, c.input.now};
  end_probe(fold, c.policy, probe, false, "oom: no memory");
  CHECK(c.state("n2") == NodeState::quarantined);
  CHECK(c.rows.nodes["n2"].reason == "the short run failed: oom: no memory");
  CHECK(c.rows.nodes["n2"].until ==
      c.input.now + static_cast<Timestamp>(2 * c.policy.probe_after_s * 1e6));
  c.rows.nodes["n2"].state = NodeState::probation;
  c.rows.nodes["n2"].failed_probes = 30;
  end_probe(fold, c.policy, probe, false, "again");
  CHECK(c.rows.nodes["n2"].until == c.input.now + 86400 * second);
  c.rows.nodes["n2"].state = NodeState::probation;
  put_off_probe(fold, probe);
  CHECK(c.state("n2") == NodeState::quarantined);
  CHECK(c.rows.nodes["n2"].until == c.input.now);
}

TEST_CASE("a job refused for want of nodes lets all nodes back in, another refusal none") {
  NodeCase c;
  c.fail(1, 1, Outcome::node_failure, "n2");
  c.gone(1);
  c.decide();
  REQUIRE(nodes_out(c.world).size() == 1);
  const std::string token = c.newest()->token;
  SUBCASE("the other nodes are too few") {
    fold_scheduler({c.world, c.input.now},
        SubmitRefused{token, "Requested node configuration is not available"});
    CHECK(nodes_out(c.world).empty());
  }
  SUBCASE("the account is wrong: what is known of nodes stays") {
    fold_scheduler({c.world, c.input.now}, SubmitRefused{token, "Invalid account"});
    CHECK(nodes_out(c.world) == std::vector<std::string>{"n2"});
    CHECK_FALSE(c.rows.nodes["n2"].evidence.empty());
  }
}

TEST_CASE("no more nodes are excluded than the policy allows and old evidence counts no more") {
  NodeCase c;
  c.input.sweeps[1].policy.most_out = 2;
  for (const char* node : {"n1", "n2", "n3", "n4"})
    c.say(1, FoundOnNode{node, EvidenceKind::dirty, "memory"});
  c.decide();
  CHECK(nodes_out(c.world).size() == 2);
  NodeCase old;
  old.say(1, FoundOnNode{"n1", EvidenceKind::dirty, "memory"});
  old.wait(old.policy.remember_s + 1);
  old.decide();
  CHECK(nodes_out(old.world).empty());
}

TEST_CASE("this machine is never excluded for its agents but pauses its sweep when unwell") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.line(NodeSeen{std::string(local_node), "h", 1});
  c.line(Started{1, "n"});
  c.line(Ended{.attempt = 1,
      .ending = {.outcome = Outcome::node_failure,
          .source = SaidBy::agent,
          .node = std::string(local_node)}});
  c.decide();
  CHECK(c.rows.sweeps.at(1).state == SweepState::active);
  c.line(FoundOnNode{std::string(local_node), EvidenceKind::dirty, "GPU 0 holds 512 MiB"});
  c.decide();
  CHECK(c.rows.sweeps.at(1).state == SweepState::paused);
  clear_node(c.fold(), c.rows.nodes.at(std::string(local_node)), "me");
  c.rows.sweeps.at(1).state = SweepState::active;
  c.decide();
  CHECK(c.rows.sweeps.at(1).state == SweepState::active);
}

TEST_CASE("a batch host that Slurm gave up is named by the job's first node") {
  CHECK(first_node("n[1-4,7]") == "n1");
  CHECK(first_node("n[01-04]") == "n01");
  CHECK(first_node("n3") == "n3");
  CHECK(first_node("a,b[1-2]") == "a");
  CHECK(first_node("n[1-4]-ib,m7") == "n1-ib");
  for (const char* none : {"", "(null)", "None assigned", "n[", "n[1-2"})
    CHECK(first_node(none).empty());
  NodeCase c;
  fold_scheduler({c.world, c.input.now},
      JobSeen{.token = c.job(1).token,
          .job_id = "7",
          .state = JobState::ended,
          .detail = "NODE_FAIL",
          .outcome = Outcome::node_failure,
          .nodes = "n[1-2]",
          .after_claim = true});
  CHECK(c.rows.nodes.at("n1").evidence.at(0).kind == EvidenceKind::lost);
}

TEST_CASE("a marked result is measured again within the budget and then kept with its mark") {
  Case c;
  c.trial(1, 1);
  c.decide();
  const auto end_marked = [&](AttemptId id) {
    RecordsSummary records;
    records.result = AddMeasurement{};
    records.result->mark = Mark::implausible;
    records.doubt = "MFU 152 %";
    c.line(Ended{.attempt = id, .ending = {.outcome = Outcome::completed}}, records);
  };
  end_marked(1);
  CHECK(c.rows.trials[1].state == State::planned);
  CHECK(c.rows.trials[1].charged == 1);
  c.decide();
  end_marked(2);
  CHECK(c.rows.trials[1].state == State::ended);
  CHECK(c.rows.trials[1].outcome == Outcome::completed);
  bool told = false;
  for (const Change& change : c.world.changes()) {
    if (const auto* put = std::get_if<PutAttempt>(&change))
      told = told || put->row.ending.value_or(Ending{}).also == "implausible: MFU 152 %";
  }
  CHECK(told);
}
