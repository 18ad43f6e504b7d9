// SPDX-License-Identifier: Apache-2.0
// What allocations that start nothing come to, and what is remembered of each from look to
// look.
#include "fleet/allocation.hpp"
#include "fleet/starts.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Starts : Case {
  Starts() {
    rows.sweeps.at(1).backend = Backend::slurm;
    input.sweeps[1].backend = Backend::slurm;
    policy.retry_failed_starts = 3;
    policy.retry_failed_nodes = 4;
  }
  SweepRow& sweep() { return rows.sweeps.at(1); }
  AllocationRow& made() {
    trial(1, 1);
    decide();
    return allocation();
  }
  std::optional<std::string> count(const AllocationRow& row) {
    return count_start(fold(), policy, row, "never started: WHY", "/a/log");
  }
};

AllocationRow ended(std::optional<Outcome> outcome = std::nullopt) {
  AllocationRow row;
  row.sweep = 1;
  row.state = State::ended;
  row.end_outcome = outcome;
  return row;
}

}  // namespace

TEST_CASE("allocations that start nothing pause their sweep with the reason") {
  Starts c;
  CHECK_FALSE(c.count(ended()));
  CHECK_FALSE(c.count(ended(Outcome::cancelled)));
  CHECK(c.sweep().failed_starts == 2);
  CHECK(c.count(ended()) ==
      "paused: 3 allocations in a row failed, the last one never started: WHY (see /a/log)");
  CHECK(c.sweep().state == SweepState::paused);
  // A resumed sweep begins to count anew, also where it is a later daemon's.
  const auto& set = std::get<SetSweep>(c.world.changes()[c.world.changes().size() - 2]).row;
  CHECK(set.state == SweepState::paused);
  CHECK(set.failed_starts == 0);
  CHECK(set.failed_nodes == 0);
  CHECK(std::get<AddEvent>(c.world.changes().back()).kind == EventKind::paused);
}

TEST_CASE("jobs that their user cancels while they wait are no failures by their words") {
  Starts c;
  AllocationRow cancelled = ended(Outcome::cancelled);
  CHECK_FALSE(c.count(cancelled));
  CHECK_FALSE(c.count(cancelled));
  SUBCASE("by scancel") {
    CHECK(c.count(cancelled) ==
        "paused: 3 jobs in a row did not start, and you have cancelled the last one (scancel). "
        "'shardsweep resume " +
            c.sweep().name + "' submits new ones.");
  }
  SUBCASE("by shardsweep") {
    cancelled.own_cancel = true;
    CHECK(c.count(cancelled)->starts_with("paused: 3 allocations in a row failed"));
  }
}

TEST_CASE("one job that its user cancels is enough if the sweep says so") {
  Starts c;
  c.policy.retry_failed_starts = 1;
  CHECK(c.count(ended(Outcome::cancelled))
            ->starts_with("paused: you have cancelled its job before it started"));
}

TEST_CASE("every failure is a row before the next one comes") {
  Starts c;
  (void)c.count(ended());
  REQUIRE(c.world.changes().size() == 1);
  const auto& set = std::get<SetSweep>(c.world.changes()[0]).row;
  CHECK(set.state == SweepState::active);
  CHECK(set.failed_starts == 1);
  CHECK(set.failed_nodes == 0);
}

TEST_CASE("a node that takes an allocation with it is not a refusal") {
  Starts c;
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(c.count(ended(i == 1 ? Outcome::preempted : Outcome::node_failure)));
  CHECK(c.sweep().failed_starts == 0);
  CHECK(c.sweep().state == SweepState::active);
  SUBCASE("but it must end some time") {
    CHECK(c.count(ended(Outcome::node_failure)));
    CHECK(c.sweep().state == SweepState::paused);
  }
  SUBCASE("and refusals in between are counted on") {
    (void)c.count(ended());
    CHECK(c.sweep().failed_starts == 1);
    CHECK(c.sweep().failed_nodes == 3);
  }
}

TEST_CASE("a node whose agents never answer its lead is named, and the sweep goes on") {
  for (const char* why : {"node lost", "wrong clock: 6301 s"}) {
    Starts c;
    AllocationRow row = c.made();
    row.claimed_at = 5;
    row.end_reason = why;
    c.world.see_node({"n2", "h2", 5, row.id, true});
    for (int i = 0; i < 3; ++i)
      CHECK_FALSE(c.count(row));
    CHECK(c.sweep().failed_starts == 1);
    c.decide();
    REQUIRE(c.world.node("n2") != nullptr);
    CHECK(c.world.node("n2")->state == NodeState::quarantined);
    // Of two nodes it is not known which.
    Starts two;
    row.nodes = 2;
    two.world.see_node({"n2", "h2", 5, row.id, true});
    CHECK_FALSE(two.count(row));
    CHECK((two.world.node("n2") == nullptr || two.world.node("n2")->evidence.empty()));
  }
}

TEST_CASE("a node that its lead names again and again is one failure of the sweep") {
  Starts c;
  AllocationRow row = c.made();
  row.nodes = 2;
  row.claimed_at = 5;
  row.end_reason = "node lost";
  Timestamp at = noon;
  const auto lost = [&](const std::string& node) {
    c.world.charge(node, {.at = ++at, .kind = EvidenceKind::silent, .detail = "srun lost it"});
    c.world.note_silent_on(row, node);
    return c.count(row);
  };
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(lost("n2"));
  CHECK(c.sweep().failed_starts == 1);
  CHECK(c.sweep().failed_nodes == 2);
  // Another node each time: it is the site.
  CHECK_FALSE(lost("n3"));
  CHECK(lost("n4") ==
      "paused: 3 allocations in a row failed, the last one never started: WHY, on node n4 "
      "(see /a/log)");
}

TEST_CASE("of jobs that lose nodes at one time each counts with its own") {
  Starts c;
  AllocationRow first = c.made();
  first.nodes = 2;
  first.claimed_at = 5;
  first.end_reason = "node lost";
  AllocationRow second = first;
  second.id = first.id + 1;
  const auto lose = [&](const AllocationRow& row, const std::string& node) {
    c.world.charge(node, {.at = noon, .kind = EvidenceKind::silent, .detail = "srun lost it"});
    c.world.note_silent_on(row, node);
  };
  lose(first, "n2");
  lose(first, "n2");
  lose(second, "n4");
  SUBCASE("by the one that was lost before") {
    CHECK_FALSE(c.count(first));
    CHECK(c.sweep().failed_starts == 0);
    CHECK(c.sweep().failed_nodes == 1);
  }
  SUBCASE("by the one that was lost once") {
    lose(first, "n2");
    CHECK_FALSE(c.count(second));
    CHECK(c.sweep().failed_starts == 1);
    CHECK(c.sweep().failed_nodes == 0);
  }
  SUBCASE("a loss without a name is none of theirs") {
    AllocationRow third = first;
    third.id = second.id + 1;
    for (int i = 0; i < 2; ++i)
      CHECK_FALSE(c.count(third));
    CHECK(c.sweep().failed_nodes == 0);
    CHECK(c.count(third) ==
        "paused: 3 allocations in a row failed, the last one never started: WHY (see /a/log)");
  }
}

TEST_CASE("a node that pauses its sweep is out with it, though nothing more is decided") {
  Starts c;
  c.policy.retry_failed_nodes = 2;
  AllocationRow row = c.made();
  row.claimed_at = 5;
  row.end_reason = "node lost";
  c.world.see_node({"n2", "h2", 5, row.id, true});
  while (c.sweep().state == SweepState::active)
    (void)c.count(row);
  REQUIRE(c.world.node("n2") != nullptr);
  CHECK(c.world.node("n2")->state == NodeState::quarantined);
}

TEST_CASE("an allocation that has started something begins the count anew") {
  Starts c;
  (void)c.count(ended());
  (void)c.count(ended(Outcome::node_failure));
  AllocationRow good = ended(Outcome::node_failure);
  good.started = true;
  (void)c.count(good);
  CHECK(c.sweep().failed_starts == 0);
  CHECK(c.sweep().failed_nodes == 0);
  const std::size_t before = c.world.changes().size();
  (void)c.count(good);
  CHECK(c.world.changes().size() == before);
}

TEST_CASE("one that was released before it began says nothing") {
  Starts c;
  (void)c.count(ended());
  AllocationRow released = ended(Outcome::cancelled);
  released.draining = true;
  (void)c.count(released);
  CHECK(c.sweep().failed_starts == 1);
  released.gave_back = true;
  (void)c.count(released);
  CHECK(c.sweep().failed_starts == 2);
}

TEST_CASE("hours that went by while it waited are no failure") {
  AllocationRow waited = ended(Outcome::timeout);
  waited.time_limit_s = 3600;
  CHECK(judge_start(waited, World{}, noon) == Start::failed);
  waited.deadline = noon + std::int64_t{3600} * 1'000'000;
  CHECK(judge_start(waited, World{}, noon) == Start::unwanted);
  CHECK(judge_start(waited, World{}, noon - std::int64_t{600} * 1'000'000) == Start::failed);
  waited.claimed_at = noon;
  CHECK(judge_start(waited, World{}, noon) == Start::failed);
}

TEST_CASE("a refusal of a job that excluded nodes does not count against the sweep") {
  WorldRows rows;
  const auto judge = [&](const AllocationRow& row) { return judge_start(row, World(rows), noon); };
  AllocationRow refused = ended();
  refused.submission = Submission::refused;
  refused.created_at = noon - 10;
  CHECK(judge(refused) == Start::failed);
  // The first refusal of a wave lets all nodes back in; three more are on their way.
  rows.nodes["n1"] = {.node = "n1", .state = NodeState::trusted, .since = noon - 5};
  CHECK(judge(refused) == Start::failed_node);
  // A job that was made after that asked for all nodes.
  refused.created_at = noon;
  CHECK(judge(refused) == Start::failed);
}

TEST_CASE("what a lead does is remembered in its row") {
  Starts c;
  AllocationRow& row = c.made();
  SUBCASE("that something has started") {
    CHECK_FALSE(row.started);
    c.line(Started{.attempt = 1});
    CHECK(row.started);
  }
  SUBCASE("that it gave back what nobody had asked for") {
    c.line(Revoked{1});
    CHECK(row.gave_back);
    CHECK(row.draining);
  }
  SUBCASE("and not what was asked back") {
    c.sweep().state = SweepState::paused;
    c.line(Revoked{1});
    CHECK_FALSE(row.gave_back);
  }
  SUBCASE("nor what a lead gives back that was told to leave") {
    row.draining = true;
    c.line(Revoked{1});
    CHECK_FALSE(row.gave_back);
  }
}

TEST_CASE("a submission that is told to come back later says when") {
  Starts c;
  AllocationRow& row = c.made();
  fold_scheduler(c.fold(), SubmitDeferred{row.token, "QOSMaxSubmitJobPerUserLimit"});
  CHECK(row.submit_after == noon + 15'000'000);
  CHECK(std::get<PutAllocation>(c.world.changes()[c.world.changes().size() - 2]).row.submit_after ==
      row.submit_after);
  for (int i = 0; i < 9; ++i)
    fold_scheduler(c.fold(), SubmitDeferred{row.token, "again"});
  CHECK(row.submit_after == noon + 480'000'000);
  fold_scheduler(c.fold(), SubmitAccepted{row.token, "7"});
  CHECK(row.deferrals == 0);
}

TEST_CASE("a limit that may never pass is put off five times, then refused") {
  Starts c;
  AllocationRow& row = c.made();
  const SubmitDeferred open{row.token, "job submit limit", false};
  for (int i = 0; i < 5; ++i)
    fold_scheduler(c.fold(), open);
  CHECK(row.job_state != JobState::ended);
  CHECK(row.detail == "job submit limit");
  fold_scheduler(c.fold(), open);
  CHECK(row.submission == Submission::refused);
  CHECK(row.job_state == JobState::ended);
  CHECK(row.end_reason == "put off 5 times: job submit limit");
}

TEST_CASE("an allocation whose programs did not start has started nothing") {
  Starts c;
  c.trial(1, 1);
  c.trial(2, 2);
  c.decide();
  c.line(Started{.attempt = 1});
  CHECK(c.allocation().started);
  c.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::lost, .cause = "x", .start_error = 2}});
  CHECK_FALSE(c.allocation().started);
  CHECK(c.rows.trials[1].charged == 0);
  CHECK(judge_start(c.allocation(), c.world, noon) == Start::failed);
  c.line(Started{.attempt = 2});
  c.end(2, Outcome::completed, true);
  CHECK(judge_start(c.allocation(), c.world, noon) == Start::began);
}

TEST_CASE("what can't be read is lost without charge, whatever its lead said") {
  Starts c;
  c.trial(1, 1);
  c.decide();
  c.line(Started{.attempt = 1});
  RecordsSummary unreadable;
  unreadable.unreadable = "the attempt's folder can't be read: Permission denied";
  (void)c.world.take_changes();
  c.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::completed}}, unreadable);
  const auto& put = std::get<PutAttempt>(c.world.changes().front());
  CHECK(put.row.outcome() == Outcome::lost);
  CHECK(put.row.ending->cause == unreadable.unreadable);
  CHECK(c.rows.trials[1].charged == 0);
}

TEST_CASE("what a look has missed is remembered until it is found") {
  Starts c;
  AllocationRow& row = c.made();
  fold_scheduler(c.fold(), JobMissed{row.token, Missing::job});
  CHECK(row.missing == Missing::job);
  CHECK(row.missing_since == noon);
  const std::size_t before = c.world.changes().size();
  fold_scheduler({c.world, noon + 5}, JobMissed{row.token, Missing::job});
  CHECK(row.missing_since == noon);
  CHECK(c.world.changes().size() == before);
  SUBCASE("by a look") {
    fold_scheduler(c.fold(), JobSeen{.token = row.token, .job_id = "7"});
  }
  SUBCASE("or by the answer to a submission") {
    fold_scheduler(c.fold(), SubmitAccepted{row.token, "7"});
  }
  SUBCASE("or until it is given up") {
    fold_scheduler(c.fold(), JobNotSeen{row.token});
  }
  CHECK(row.missing == Missing::nothing);
}

TEST_CASE("since when a job runs is remembered while it does") {
  Starts c;
  AllocationRow& row = c.made();
  const auto seen = [&](JobState state, Timestamp at) {
    fold_scheduler(
        {c.world, at}, JobSeen{.token = row.token, .job_id = "7", .state = state, .detail = "W"});
  };
  seen(JobState::pending, noon);
  CHECK(row.running_since == 0);
  seen(JobState::running, noon + 1);
  seen(JobState::running, noon + 2);
  CHECK(row.running_since == noon + 1);
  seen(JobState::pending, noon + 3);
  CHECK(row.running_since == 0);
}
