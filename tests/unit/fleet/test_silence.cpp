// SPDX-License-Identifier: Apache-2.0
#include "fleet/silence.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Lead : Case {
  Lead() {
    policy.lead_limit_s = 100;
    trial(1, 1);
    decide();
    line(Claimed{.token = allocation().token});
    line(Started{.attempt = 1, .nonce = attempt(1).nonce});
    allocation().job_state = JobState::running;
    (void)world.take_changes();
  }
  void judge(Timestamp after_s) {
    judge_silence({world, noon + after_s * second}, policy, allocation());
  }
};

}  // namespace

TEST_CASE("a lead that says nothing for the whole limit is given up") {
  Lead lead;
  lead.judge(50);
  CHECK(lead.world.changes().empty());
  lead.judge(51);
  CHECK(lead.allocation().quiet_since == noon + 51 * second);
  CHECK(lead.world.changes().size() == 1);
  lead.judge(101);
  CHECK(!is_given_up(lead.allocation()));
  CHECK(lead.world.changes().size() == 1);
  lead.judge(102);
  CHECK(is_given_up(lead.allocation()));
  CHECK(lead.allocation().end_reason == "its lead wrote nothing for 102 s, but its job still runs");

  SUBCASE("and its trial is tried elsewhere without being charged") {
    fold_gone(lead.fold(), lead.policy, lead.allocation().id, {{1, {}}}, "no word");
    CHECK(lead.rows.trials.at(1).state == State::planned);
    CHECK(lead.rows.trials.at(1).charged == 0);
    CHECK(lead.rows.trials.at(1).elsewhere == 1);
  }
  SUBCASE("and what the scheduler says of the cancelled job is no other reason") {
    fold_scheduler(lead.fold(),
        JobSeen{.token = lead.allocation().token,
            .state = JobState::ended,
            .detail = "CANCELLED",
            .outcome = Outcome::cancelled});
    CHECK(lead.allocation().end_outcome == Outcome::node_failure);
    CHECK(!is_given_up(lead.allocation()));
  }
  SUBCASE("and when it wakes up and is told to stop that is the reason still") {
    lead.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::preempted, .cause = "SIGTERM"}});
    CHECK(lead.rows.trials.at(1).elsewhere == 1);
    CHECK(lead.rows.trials.at(1).charged == 0);
  }
}

TEST_CASE("a job that runs on after its lead has left is given up, and blames nobody") {
  Lead lead;
  lead.line(Claimed{.token = lead.allocation().token, .host = "h4", .node = "n4"});
  lead.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::cancelled, .cause = "as told"}});
  lead.line(Bye{"node lost"});
  lead.judge(151);
  lead.judge(202);
  CHECK(is_given_up(lead.allocation()));
  CHECK(lead.allocation().end_reason ==
      "its lead on n4 left 202 s ago (node lost), but its job still runs");
  fold_gone(lead.fold(), lead.policy, lead.allocation().id, {}, "cancelled");
  CHECK(lead.rows.nodes.empty());
}

TEST_CASE("a lead that is given up speaks against its own node, once") {
  Lead lead;
  lead.rows.allocations.begin()->second.nodes = 2;
  lead.line(Claimed{.token = lead.allocation().token, .host = "h4", .node = "n4"});
  lead.line(NodeSeen{.node = "n3", .host = "h3"});
  lead.judge(51);
  lead.judge(102);
  CHECK(lead.allocation().end_reason.starts_with("its lead on n4 wrote nothing for "));
  // A scheduler that has noticed it says so too.
  lead.allocation().end_outcome.reset();
  fold_scheduler(lead.fold(),
      JobSeen{.token = lead.allocation().token,
          .state = JobState::ended,
          .detail = "NODE_FAIL",
          .outcome = Outcome::node_failure,
          .nodes = "n[4,3]"});
  fold_gone(lead.fold(), lead.policy, lead.allocation().id, {{1, {}}}, "no word");
  REQUIRE(lead.rows.nodes.size() == 1);
  CHECK(lead.rows.nodes.at("n4").evidence.size() == 1);
  CHECK(lead.rows.nodes.at("n4").evidence[0].trial == 1);
  CHECK(lead.rows.lead_nodes.empty());
}

TEST_CASE("a word of the lead within the limit counts from anew") {
  Lead lead;
  lead.judge(51);
  fold_line({lead.world, noon + 60 * second}, lead.policy, lead.allocation().id,
      {lead.allocation().from_lead_n + 1, noon + 60 * second, Beat{}}, {});
  lead.judge(61);
  CHECK(lead.allocation().quiet_since == 0);
  lead.judge(109);
  CHECK(lead.allocation().quiet_since == 0);
  lead.judge(111);
  CHECK(lead.allocation().quiet_since != 0);
  CHECK(!is_given_up(lead.allocation()));
}

TEST_CASE("a daemon that has just come gives nobody up at its first look") {
  Lead lead;
  lead.judge(100'000);
  CHECK(!is_given_up(lead.allocation()));
  lead.judge(100'051);
  CHECK(is_given_up(lead.allocation()));
}

TEST_CASE("who can't speak is not silent") {
  Lead lead;
  SUBCASE("its job is suspended") {
    lead.allocation().hold = Hold::suspended;
  }
  SUBCASE("its job has ended") {
    lead.allocation().job_state = JobState::ended;
  }
  SUBCASE("Slurm does not tell whether its job runs") {
    lead.allocation().backend = Backend::slurm;
    lead.allocation().job_state = JobState::unknown;
  }
  SUBCASE("nobody has claimed it yet") {
    lead.allocation().claimed_at = 0;
  }
  lead.judge(51);
  lead.judge(500);
  CHECK(lead.world.changes().empty());
  CHECK(!is_given_up(lead.allocation()));
}
