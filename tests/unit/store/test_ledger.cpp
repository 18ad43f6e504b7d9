// SPDX-License-Identifier: Apache-2.0
// The ledger of nodes in the database: what a daemon that takes over knows of it, and what
// `shardsweep nodes` shows.
#include "store/schema.hpp"
#include "unit/store/support.hpp"

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// One row of node_ledger as text by column.
std::string ledger(
    const std::filesystem::path& file, const std::string& columns, const std::string& node) {
  const auto reader = must(Reader::open(file));
  const Table table =
      must(reader->query("SELECT " + columns + " FROM node_ledger WHERE node = '" + node + "'"));
  REQUIRE(table.rows.size() == 1);
  std::string text;
  for (const Value& value : table.rows[0]) {
    if (!text.empty()) text += ' ';
    if (const auto* number = std::get_if<std::int64_t>(&value)) text += std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&value)) text += *word;
  }
  return text;
}

AllocationRow allocation(AllocationId id, const std::string& probe_of = "") {
  return {.id = id,
      .sweep = 1,
      .token = "token" + std::to_string(id),
      .job_name = "job",
      .dir = "/a",
      .backend = Backend::slurm,
      .probe_of = probe_of};
}

}  // namespace

TEST_CASE("a daemon that takes over knows states and evidence and probes of nodes") {
  const TempDir dir;
  const auto file = dir / "a.db";
  {
    Daemon daemon(file);
    daemon.submit(dir, {});
    const TrialId trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
    daemon.commit({PutAllocation{.row = allocation(901)},
        PutAllocation{.row = allocation(902, "n2")}, SeenNode{"n1", "h1", 5, 901},
        SeenNode{"n2", "h2", 5, 901}, SeenNode{"n1", "h1", 6, 901},
        SeenNode{"n2", "h2", 6, 901, true}, SeenNode{"n2", "h2", 7, 901},
        AddNodeEvidence{"n2", {7, EvidenceKind::lost, trial, 0, "NODE_FAIL"}},
        AddNodeEvidence{"n3", {8, EvidenceKind::dirty, 0, 0, "state D"}},
        AddNodeEvidence{"n4", {8, EvidenceKind::slower, trial, 0, "a", 1.25, "n1,n2"}},
        AddNodeEvidence{"n4", {9, EvidenceKind::slower, trial, 0, "b", 1.35, "n1"}},
        AddNodeEvidence{"n4", {9, EvidenceKind::on_pace, trial, 0, "c", 1.01, "n1"}},
        SetNode{{.node = "n2",
            .state = NodeState::probation,
            .since = 9,
            .until = 10,
            .reason = "lost",
            .failed_probes = 2}}});
  }
  Daemon next(file);
  const WorldRows world = must(next.store->load_world());
  CHECK(world.nodes_of.at(901) == std::vector<std::string>{"n1", "n2"});
  CHECK(world.lead_nodes == std::map<AllocationId, std::string>{{901, "n2"}});
  CHECK(world.allocations.at(901).probe_of.empty());
  CHECK(world.allocations.at(902).probe_of == "n2");
  const NodeRow& node = world.nodes.at("n2");
  CHECK(node.state == NodeState::probation);
  CHECK(node.since == 9);
  CHECK(node.until == 10);
  CHECK(node.failed_probes == 2);
  REQUIRE(node.evidence.size() == 1);
  CHECK(node.evidence[0].kind == EvidenceKind::lost);
  CHECK(node.evidence[0].detail == "NODE_FAIL");
  CHECK(world.nodes.at("n3").state == NodeState::trusted);
  CHECK(ledger(file, "state, evidence, reason, last_evidence", "n2") ==
      "probation 1 lost lost: NODE_FAIL");
  REQUIRE(world.nodes.at("n4").evidence.size() == 3);
  CHECK(world.nodes.at("n4").evidence[0] ==
      NodeCharge{
          8, EvidenceKind::slower, world.nodes.at("n2").evidence[0].trial, 0, "a", 1.25, "n1,n2"});
  CHECK(ledger(file, "evidence, slow_in, slow = 1.3, last_evidence", "n4") == "0 2 1 ");
  CHECK(ledger(file, "state, evidence, hosts", "n1") == "trusted 0 h1");
}

TEST_CASE("what counts no more stays in the ledger and an ended probe is told once") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  daemon.submit(dir, {});
  const TrialId trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  daemon.commit({PutAllocation{.row = allocation(902, "n2")},
      AddNodeEvidence{"n2", {7, EvidenceKind::lost, trial, 0, "a"}},
      AddNodeEvidence{"n2", {8, EvidenceKind::lost, 0, 0, "b"}}});
  daemon.commit({ForgetEvidence{"n2", trial}});
  CHECK(must(daemon.store->load_world()).nodes.at("n2").evidence.size() == 1);
  daemon.commit({ForgetEvidence{"n2"}, EndProbe{902, true, "", 9}, EndProbe{902, false, "x", 10}});
  const WorldRows world = must(daemon.store->load_world());
  CHECK(world.nodes.find("n2") == world.nodes.end());
  CHECK(ledger(file, "evidence, probes_passed, probes_failed", "n2") == "0 1 0");
}

TEST_CASE("what the end of a job has ended is expected to take as long as it has taken") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const TrialId trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  auto row = allocation(903);
  row.time_limit_s = 100;
  AttemptRow attempt{.id = 900, .trial = trial, .number = 1, .allocation = 903, .nonce = "n"};
  attempt.state = State::ended;
  attempt.ending = {
      .outcome = Outcome::timeout, .cause = "its time was up", .source = SaidBy::agent};
  attempt.started_at = 5'000'000;
  attempt.ended_at = 25'000'000;
  double expected_s = 20;
  SUBCASE("its job had the time for it") {}
  SUBCASE("no more than another job can hold") {
    attempt.ended_at = 95'000'000;
    expected_s = 50;
  }
  SUBCASE("a limit of its own says nothing of a job's time") {
    attempt.ending->source = SaidBy::policy;
    expected_s = 2;
  }
  daemon.commit({PutAllocation{.row = row}, PutAttempt{attempt},
      set_trial(trial, State::planned, {}, "", 1)});
  CHECK(
      must(daemon.store->load_world()).trials.at(trial).predicted_s == doctest::Approx(expected_s));
}

TEST_CASE("an attempt's node and contradictions are kept and counted by node") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  daemon.submit(dir, {});
  const TrialId trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  const auto row = allocation(903);
  AttemptRow attempt{.id = 900, .trial = trial, .number = 1, .allocation = 903, .nonce = "n"};
  attempt.state = State::ended;
  attempt.ending = {.outcome = Outcome::node_failure,
      .cause = "ECC",
      .source = SaidBy::log,
      .node = "n1",
      .also = "oom: rank 3"};
  attempt.started_at = 5;
  attempt.ended_at = 9;
  daemon.commit({PutAllocation{.row = row}, SeenNode{"n1", "h1", 5, 903}, PutAttempt{attempt},
      set_trial(trial, State::planned, {}, "", 1)});
  CHECK(ledger(file, "attempts, completed, node_failure, crashed", "n1") == "1 0 1 0");
  CHECK(must(daemon.store->load_world()).trials.at(trial).last == Outcome::node_failure);
  const auto reader = must(Reader::open(file));
  const Table slug =
      must(reader->query("SELECT slug FROM trials WHERE id = " + std::to_string(trial)));
  const auto sections = must(reader->show(std::get<std::string>(slug.rows.at(0).at(0))));
  const auto attempts = std::find_if(sections.begin(), sections.end(),
      [](const auto& section) { return section.title == "attempts"; });
  REQUIRE(attempts != sections.end());
  const auto cell = [&](const std::string& column) {
    const auto& columns = attempts->table.columns;
    const auto at = std::find(columns.begin(), columns.end(), column) - columns.begin();
    return std::get<std::string>(attempts->table.rows.at(0).at(static_cast<std::size_t>(at)));
  };
  CHECK(cell("also") == "oom: rank 3");
  CHECK(cell("cause_node") == "n1");
  CHECK(cell("nodes") == "n1");
}

TEST_CASE("losses of other layouts are those of the same model and batch and train steps") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const TrialId trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  CHECK(must(daemon.store->losses_of_others(trial, 13)).empty());
}
