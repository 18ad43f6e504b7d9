// SPDX-License-Identifier: Apache-2.0
// Allocations on a cluster: how many there are and for how long, and what the scheduler's words
// do to them and to what ran in them.
#include "fleet/allocation.hpp"
#include "slurm/words/array.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// A sweep on Slurm.
struct Cluster : Case {
  Cluster() {
    rows.sweeps.at(1).backend = Backend::slurm;
    facts().backend = Backend::slurm;
  }
  SweepFacts& facts() { return input.sweeps[1]; }
  void trials(std::int32_t nodes, int count, double predicted_s = 10) {
    for (int i = 0; i < count; ++i) {
      const TrialId id = static_cast<TrialId>(rows.trials.size()) + 1;
      TrialRow& row = trial(id, 1, "lane" + std::to_string(id));
      row.nodes = nodes;
      row.predicted_s = predicted_s;
    }
  }
  [[nodiscard]] std::vector<std::int32_t> node_counts() const {
    std::vector<std::int32_t> nodes;
    for (const auto& [id, row] : rows.allocations)
      nodes.push_back(row.nodes);
    return nodes;
  }
  void seen(JobState state, std::optional<Outcome> outcome = std::nullopt,
      const std::string& detail = "WORD") {
    fold_scheduler(fold(),
        JobSeen{.token = allocation().token,
            .job_id = "7",
            .state = state,
            .detail = detail,
            .outcome = outcome,
            .after_claim = allocation().claimed_at != 0});
  }
};

}  // namespace

TEST_CASE("each node count gets an allocation of its own, small ones first") {
  Cluster c;
  c.trials(8, 3);
  c.trials(1, 3);
  c.trials(4, 3);
  c.decide();
  CHECK(c.node_counts() == std::vector<std::int32_t>{1, 4, 8});
  for (const auto& [id, attempt] : c.rows.attempts) {
    const std::int32_t nodes = c.rows.allocations.at(attempt.allocation).nodes;
    CHECK(c.rows.trials.at(attempt.trial).nodes == nodes);
  }
}

TEST_CASE("more work than one lane holds gets more allocations, within the limits") {
  Cluster c;
  c.facts().policy.lane_ahead_s = 100;
  c.trials(2, 60);  // 600 s
  c.decide();
  CHECK(c.rows.allocations.size() == 4);  // the default
  SUBCASE("none is added while nothing has changed") {
    c.decide();
    CHECK(c.rows.allocations.size() == 4);
  }
}

TEST_CASE("a lane that starts at once brings others, for nodes that stand idle") {
  Cluster c;
  c.input.stays = true;
  c.trials(1, 60);  // 600 s: worth one lane
  c.decide();
  REQUIRE(c.rows.allocations.size() == 1);
  AllocationRow& first = c.allocation();
  const auto held = c.rows.attempts.size();
  CHECK(held < 60 / 4);  // something is left for others
  first.state = State::running;
  first.job_state = JobState::running;
  first.claimed_at = first.created_at + 2 * second;
  c.attempt(1).started_at = first.created_at + 3 * second;
  SUBCASE("up to four, which hold nothing before they start") {
    c.decide();
    CHECK(c.rows.allocations.size() == 4);
    CHECK(c.rows.attempts.size() == held);
    AllocationRow& last = c.rows.allocations.rbegin()->second;
    last.state = State::running;
    last.job_state = JobState::running;
    last.claimed_at = last.created_at + 2 * second;
    c.decide();
    CHECK(c.rows.allocations.size() == 4);
    CHECK(c.rows.attempts.size() > held);
    CHECK(c.rows.attempts.rbegin()->second.allocation == last.id);
  }
  SUBCASE("one that waited found no idle node") {
    first.claimed_at = first.created_at + 61 * second;
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
  }
  SUBCASE("none while a job of ours waits") {
    c.trials(8, 1);
    c.decide();
    CHECK(c.rows.allocations.size() == 2);
    c.decide();
    CHECK(c.rows.allocations.size() == 2);
  }
  SUBCASE("a start costs less than it saves") {
    c.attempt(1).started_at = first.created_at + 55 * second;  // 600 / 3 - 600 / 4 = 50 s
    c.decide();
    CHECK(c.rows.allocations.size() == 3);
  }
  SUBCASE("what a start costs is known once a trial runs") {
    c.attempt(1).started_at = 0;
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
  }
  SUBCASE("a daemon that makes one pass fills the lane that it has") {
    c.input.stays = false;
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
    CHECK(c.rows.attempts.size() == 60);
  }
}

TEST_CASE("nodes that Slurm calls idle are asked for at once") {
  Cluster c;
  c.input.stays = true;
  c.facts().site.default_partition = "main";
  c.facts().site.partitions["main"] = {.nodes = 8, .alike = {{8, 8, 0, 6}}};
  c.facts().site.idle_at = c.input.now;
  c.facts().gpus = {{.value = "gpu:8"}};
  c.trials(1, 60);  // 600 s: worth one lane
  SUBCASE("up to four") {
    c.decide();
    CHECK(c.rows.allocations.size() == 4);
    c.decide();
    CHECK(c.rows.allocations.size() == 4);
  }
  SUBCASE("no more than there are, without those of a sick node") {
    c.facts().site.partitions["main"].alike.front().idle = 3;
    c.rows.nodes["n1"] = {
        .node = "n1", .state = NodeState::quarantined, .until = c.input.now + 60 * second};
    c.decide();
    CHECK(c.rows.allocations.size() == 2);
  }
  SUBCASE("not twice for two sweeps") {
    c.facts().site.partitions["main"].alike.front().idle = 5;
    c.rows.sweeps[2] = c.rows.sweeps.at(1);
    c.rows.sweeps.at(2).id = 2;
    c.rows.sweeps.at(2).name = "second";
    c.input.sweeps[2] = c.input.sweeps.at(1);
    for (const TrialId id : {99, 100}) {
      TrialRow& row = c.trial(id, 1, "lane" + std::to_string(id));
      row.sweep = 2;
      row.predicted_s = 600;
    }
    c.decide();  // a lane for two trials that are worth one each would need two more nodes
    CHECK(c.rows.allocations.size() == 5);
  }
  SUBCASE("no more than a start saves") {
    for (auto& [id, trial] : c.rows.trials)
      trial.predicted_s = 0.5;  // 30 s, so 30 / 3 - 30 / 4 = 2.5 s
    c.decide();
    CHECK(c.rows.allocations.size() == 3);
  }
  SUBCASE("one where other nodes may be meant") {
    SUBCASE("by an option") {
      c.facts().picks_nodes = true;
    }
    SUBCASE("by the kind of GPU") {
      c.facts().gpus = {{.value = "gpu:h100:8"}};
    }
    SUBCASE("by their number") {
      c.facts().site.partitions["main"].alike = {{8, 8, 0, 0}, {8, 0, 0, 8}};
    }
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
  }
  SUBCASE("one if the answer is old") {
    c.facts().site.idle_at -= 61 * second;
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
  }
  SUBCASE("one in a single pass") {
    c.input.stays = false;
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
  }
  SUBCASE("none more beside a job that waits, or that has waited") {
    c.facts().site.idle_at = 0;
    c.decide();
    REQUIRE(c.rows.allocations.size() == 1);
    AllocationRow& first = c.allocation();
    first.created_at -= 100 * second;
    c.facts().site.idle_at = c.input.now;
    SUBCASE("") {
      first.claimed_at = 0;
    }
    SUBCASE("") {
      first.claimed_at = first.created_at + 61 * second;
    }
    c.decide();
    CHECK(c.rows.allocations.size() == 1);
  }
  SUBCASE("two node counts share them") {
    c.facts().site.partitions["main"].alike.front().idle = 4;
    c.trials(2, 60);
    c.decide();
    CHECK(c.node_counts() == std::vector<std::int32_t>{1, 2, 1});
  }
}

TEST_CASE("limits hold for allocations, for those that wait, and for nodes") {
  Cluster c;
  c.facts().policy.lane_ahead_s = 10;
  c.trials(1, 40);
  c.trials(2, 40);
  SUBCASE("allocations") {
    c.facts().policy.max_allocations = 2;
  }
  SUBCASE("pending") {
    c.facts().policy.max_pending = 2;
  }
  SUBCASE("nodes") {
    c.facts().policy.max_nodes = 2;
  }
  c.decide();
  CHECK(c.rows.allocations.size() == 2);
}

TEST_CASE("a job per trial") {
  Cluster c;
  c.facts().policy.lane_length = 1;
  c.facts().policy.max_allocations = 100;
  c.trials(1, 5);
  c.decide();
  CHECK(c.rows.allocations.size() == 5);
  CHECK(c.rows.attempts.size() == 5);
}

TEST_CASE("what is made at once for one node count can be submitted as one array") {
  Cluster c;
  Policy& policy = c.facts().policy;
  policy.lane_length = 1;
  policy.lane_array = 3;
  policy.max_allocations = 100;
  c.trials(1, 4);
  c.trials(2, 1);
  c.decide();
  std::vector<std::string> arrays;
  std::vector<std::int64_t> indexes;
  for (const auto& [id, row] : c.rows.allocations) {
    const auto element = slurm::element_in(row.token);
    REQUIRE(element);
    CHECK(row.job_name.ends_with(row.token));
    arrays.push_back(element->array);
    indexes.push_back(element->index);
  }
  CHECK(indexes == std::vector<std::int64_t>{0, 1, 2, 0, 0});
  CHECK(arrays[0] == arrays[2]);
  CHECK(arrays[2] != arrays[3]);  // it was full
  CHECK(arrays[3] != arrays[4]);  // another node count
}

TEST_CASE("wall time follows the prediction, with a margin and between its bounds") {
  Policy policy;
  policy.lane.time_margin = 2;
  policy.lane_min_time_s = 600;
  policy.lane_max_time_s = 7200;
  policy.lane.stop_before_end_s = 60;
  policy.attempt.grace_s = 5;
  CHECK(wall_time_s(1, 1, policy) == 600);
  CHECK(wall_time_s(1000, 10, policy) == 2185);
  CHECK(wall_time_s(1e6, 10, policy) == 7200);
  // A job that could not hold one of its attempts would be made again and again.
  CHECK(wall_time_s(1000, 5000, policy) == 10065);
  policy.lane_min_time_s = policy.lane_max_time_s = 60;
  policy.lane.stop_before_end_s = 10;
  CHECK(wall_time_s(1, 1, policy) == 60);
}

TEST_CASE("a long trial gets one allocation that holds it") {
  Cluster c;
  c.facts().policy.lane_ahead_s = 1800;
  c.trials(1, 1, 3600);
  c.decide();
  REQUIRE(c.rows.allocations.size() == 1);
  CHECK(c.allocation().time_limit_s > 3600 * 1.5);
}

TEST_CASE("a late answer to a submission does not take the claim from another job") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  c.line(Claimed{.token = c.allocation().token, .job_id = "9"});
  fold_scheduler(c.fold(), SubmitAccepted{c.allocation().token, "8"});
  CHECK(c.allocation().job_id == "9");
  fold_scheduler(c.fold(), SubmitRefused{c.allocation().token, "duplicate"});
  CHECK(c.allocation().job_state != JobState::ended);
}

TEST_CASE("what Slurm says of a job's end is the outcome of what ran in it") {
  for (const Outcome outcome :
      {Outcome::node_failure, Outcome::timeout, Outcome::oom, Outcome::reaped}) {
    Cluster c;
    c.trials(1, 2);
    c.decide();
    c.allocation().time_limit_s = 60;
    c.line(Claimed{.token = c.allocation().token});
    c.line(Started{.attempt = 1});
    c.seen(JobState::ended, outcome, "NODE_FAIL (NodeDown)");
    (void)c.world.take_changes();
    fold_gone(c.fold(), c.policy, c.allocation().id, {{1, {}}, {2, {}}}, "over");
    const auto ended =
        std::find_if(c.world.changes().begin(), c.world.changes().end(), [](const Change& change) {
          const auto* put = std::get_if<PutAttempt>(&change);
          return put != nullptr && put->row.id == 1;
        });
    REQUIRE(ended != c.world.changes().end());
    CHECK(std::get<PutAttempt>(*ended).row.outcome() == outcome);
    CHECK(std::get<PutAttempt>(*ended).row.ending->source == SaidBy::scheduler);
    CHECK(c.rows.trials[2].state == State::planned);  // it had not started
  }
}

TEST_CASE("a lead that was told to stop does not know why: Slurm's word counts") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  c.allocation().time_limit_s = 60;
  c.line(Claimed{.token = c.allocation().token});
  c.line(Started{.attempt = 1});
  c.seen(JobState::ended, Outcome::timeout, "TIMEOUT (TimeLimit)");
  (void)c.world.take_changes();
  c.end(1, Outcome::preempted);
  const auto& put = std::get<PutAttempt>(c.world.changes().at(0));
  CHECK(put.row.outcome() == Outcome::timeout);
  CHECK(put.row.ending->cause == "TIMEOUT (TimeLimit); because");
}

TEST_CASE("an attempt that began late and met its job's end is not charged, and gets the time") {
  Cluster c;
  c.trials(1, 2, 20);
  c.policy.retry_on_trial = 0;
  c.decide();
  c.allocation().time_limit_s = 100;
  c.line(Claimed{.token = c.allocation().token});
  c.line(Started{.attempt = 1});
  c.line(Started{.attempt = 2});
  SaidBy source = SaidBy::agent;
  double took_s = 24;
  double expected_s = 24;
  bool again = true;
  SUBCASE("its lead was there to say so") {}
  SUBCASE("a limit of its own has ended it") {
    source = SaidBy::policy;
    expected_s = 20;
    again = false;
  }
  SUBCASE("it had most of the job's time") {
    took_s = 60;
    expected_s = 50;
    again = false;
  }
  c.attempt(2).started_at = noon - static_cast<Timestamp>(took_s * second);
  c.attempt(1).started_at = c.attempt(2).started_at - second;
  c.end(1, Outcome::completed, true);
  c.line(Ended{.attempt = 2, .ending = {Outcome::timeout, "its time was up", source}},
      RecordsSummary{});
  const TrialRow& trial = c.rows.trials[2];
  CHECK((trial.state == State::planned) == again);
  CHECK(trial.charged == (again ? 0 : 1));
  CHECK(trial.elsewhere == (again ? 1 : 0));
  CHECK(trial.predicted_s == doctest::Approx(expected_s));
}

TEST_CASE("a job that is put back into the queue is over for us") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  c.seen(JobState::pending);
  CHECK_FALSE(c.allocation().end_outcome);
  c.line(Claimed{.token = c.allocation().token});
  // An answer to a question from before the claim says nothing new.
  fold_scheduler(
      c.fold(), JobSeen{.token = c.allocation().token, .job_id = "7", .state = JobState::pending});
  CHECK(c.allocation().job_state == JobState::running);
  CHECK_FALSE(c.allocation().end_outcome);
  c.seen(JobState::pending);
  CHECK(c.allocation().end_outcome == Outcome::preempted);
  c.seen(JobState::ended, Outcome::cancelled);
  CHECK(c.allocation().end_outcome == Outcome::preempted);
}

TEST_CASE("a second job with the token that waits does not put the first one back") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  c.seen(JobState::pending);
  c.line(Claimed{.token = c.allocation().token, .job_id = "6"});
  c.seen(JobState::pending);
  CHECK_FALSE(c.allocation().end_outcome);
  CHECK(c.allocation().job_id == "6");
  CHECK(c.allocation().job_state == JobState::running);
}

TEST_CASE("what a lead gives back unasked goes to another allocation") {
  Cluster c;
  c.trials(1, 2);
  c.decide();
  c.line(Claimed{.token = c.allocation().token});
  c.line(Started{.attempt = 1});
  c.line(Revoked{2});  // it does not fit into the time that is left
  CHECK(c.allocation().draining);
  c.decide();
  REQUIRE(c.rows.allocations.size() == 2);
  CHECK(c.attempt(3).trial == 2);
  CHECK(c.attempt(3).allocation != c.allocation().id);
  c.decide();
  CHECK(c.rows.attempts.size() == 3);
}

TEST_CASE("an allocation goes on after what was asked for is given back") {
  Cluster c;
  c.trials(1, 3);
  c.decide();
  c.line(Claimed{.token = c.allocation().token});
  SUBCASE("an edited file no longer has it") {
    c.rows.trials[2].hidden = true;
  }
  SUBCASE("the trial was cancelled") {
    c.attempt(2).revoked = true;
  }
  c.line(Revoked{2});
  CHECK_FALSE(c.allocation().draining);
}

TEST_CASE("why Slurm ended a job counts for more than that its lead got a signal") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  c.line(Claimed{.token = c.allocation().token});
  c.line(Bye{"signal"});
  c.seen(JobState::ended, Outcome::timeout, "TIMEOUT (TimeLimit)");
  CHECK(c.allocation().end_reason == "TIMEOUT (TimeLimit)");
}

TEST_CASE("a job that nobody has seen is submitted again, one that was claimed is not") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  fold_scheduler(c.fold(), SubmitUnknown{c.allocation().token, "Socket timed out"});
  CHECK_FALSE(never_seen(c.allocation()));
  fold_scheduler(c.fold(), JobNotSeen{c.allocation().token});
  REQUIRE(never_seen(c.allocation()));
  submit_again(c.fold(), c.allocation());
  CHECK(c.allocation().submission == Submission::committed);
  CHECK(c.allocation().job_state == JobState::unknown);
  c.line(Claimed{.token = c.allocation().token, .job_id = "9"});
  CHECK(c.allocation().job_id == "9");
  fold_scheduler(c.fold(), JobNotSeen{c.allocation().token});
  CHECK_FALSE(never_seen(c.allocation()));
}

TEST_CASE("a job that was accepted and forgotten is submitted again without its id") {
  Cluster c;
  c.trials(1, 1);
  c.decide();
  fold_scheduler(c.fold(), SubmitAccepted{c.allocation().token, "7"});
  fold_scheduler(c.fold(), JobNotSeen{c.allocation().token});
  REQUIRE(never_seen(c.allocation()));
  // It may be another job's by now.
  CHECK(c.allocation().job_id.empty());
  submit_again(c.fold(), c.allocation());
  CHECK(c.allocation().submission == Submission::committed);
  CHECK(c.allocation().end_reason.empty());
}

TEST_CASE("A sweep that is over is not decided over again") {
  Cluster c;
  for (const SweepId id : {2, 3, 4, 5})
    c.rows.sweeps[id] = {.id = id, .name = "s", .backend = Backend::slurm, .resolved = "-"};
  c.trials(1, 1);                                                        // sweep 1: a trial waits
  c.rows.sweeps[2].held = "Waits for its hours.";                        // the reason may have gone
  c.rows.allocations[7] = {.id = 7, .sweep = 3};                         // its job still runs
  c.rows.allocations[8] = {.id = 8, .sweep = 4, .state = State::ended};  // ended in this pass
  CHECK(sweeps_to_decide(c.world) == std::set<SweepId>{1, 2, 3, 4});
}

TEST_CASE("a token is long enough that none comes twice") {
  // Among 10^5 allocations 32 bits give an equal pair with 69 %, 48 bits with 0.002 %.
  for (const char* const array : {"", "lane"}) {
    Cluster c;
    c.trials(1, 1);
    if (*array != 0) c.facts().policy.lane_array = 4;
    c.decide();
    CHECK(c.allocation().token.substr(0, c.allocation().token.find('_')).size() >= 12);
  }
}
