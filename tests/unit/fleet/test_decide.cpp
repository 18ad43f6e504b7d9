// SPDX-License-Identifier: Apache-2.0
// Fold and decide over worlds built by hand: no file, no process, no clock.
#include "fleet/allocation.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

TEST_CASE("planned trials get one allocation and are assigned ahead in order") {
  Case c;
  c.trial(2, 2);
  c.trial(1, 1);
  c.decide();
  REQUIRE(c.rows.allocations.size() == 1);
  REQUIRE(c.rows.attempts.size() == 2);
  CHECK(c.attempt(1).trial == 1);
  CHECK(c.attempt(2).trial == 2);
  CHECK(c.rows.trials[1].state == State::queued);
  const Orders orders = orders_for(c.world, c.allocation());
  CHECK(orders.assign == std::vector<AttemptId>{1, 2});
  CHECK_FALSE(orders.drain);
}

TEST_CASE("deciding twice over the same world changes nothing more") {
  Case c;
  c.trial(1, 1);
  c.decide();
  (void)c.world.take_changes();
  c.decide();
  CHECK(c.world.changes().empty());
}

TEST_CASE("no more is assigned ahead than lane.ahead covers") {
  Case c;
  c.input.sweeps[1].policy.lane_ahead_s = 25;
  for (TrialId id = 1; id <= 9; ++id)
    c.trial(id, static_cast<int>(id));
  c.decide();
  CHECK(c.rows.attempts.size() == 3);
}

TEST_CASE("two sweeps never share this machine at once") {
  Case c;
  c.rows.sweeps[2] = {.id = 2, .name = "s2", .backend = Backend::local, .resolved = "-"};
  c.input.sweeps[2] = c.input.sweeps[1];
  c.trial(1, 1);
  c.trial(2, 1).sweep = 2;
  c.decide();
  REQUIRE(c.rows.allocations.size() == 1);
  CHECK(c.allocation().sweep == 1);
  CHECK(c.rows.sweeps[1].held.empty());
  CHECK(c.rows.sweeps[2].held ==
      "Waits for " + c.rows.sweeps[1].name + ", which uses this machine now.");
}

TEST_CASE("after an oom every larger micro-batch of the lane is skipped and no other") {
  Case c;
  c.trial(1, 4).outcome = Outcome::oom;
  c.rows.trials[1].state = State::ended;
  c.trial(2, 8);
  c.trial(3, 2);
  c.trial(4, 8, "other");
  c.decide();
  CHECK(c.rows.trials[2].state == State::ended);
  CHECK(c.rows.trials[2].outcome == Outcome::skipped);
  CHECK(c.rows.trials[3].state == State::queued);
  CHECK(c.rows.trials[4].state == State::queued);
}

TEST_CASE("a result makes the attempt completed whoever died afterwards") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.line(Started{.attempt = 1});
  c.end(1, Outcome::node_failure, true);
  CHECK(c.rows.trials[1].state == State::ended);
  CHECK(c.rows.trials[1].outcome == Outcome::completed);
}

TEST_CASE("nobody's word makes an attempt completed without a result") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.end(1, Outcome::completed);
  CHECK(c.rows.trials[1].state == State::planned);
  CHECK(c.rows.trials[1].elsewhere == 1);
}

TEST_CASE("a result record that is none makes the attempt crashed, which is tried once more") {
  Case c;
  c.trial(1, 1);
  RecordsSummary records;
  records.flaw = "The result record lacks tokens_per_s_per_gpu.";
  records.owns_flaw = true;
  for (AttemptId id = 1; id <= 2; ++id) {
    c.decide();
    c.line(
        Ended{.attempt = id, .ending = {.outcome = Outcome::completed, .source = SaidBy::runner}},
        records);
    CHECK(c.rows.trials[1].charged == id);
    CHECK(c.rows.trials[1].elsewhere == 0);
  }
  CHECK(c.rows.trials[1].state == State::ended);
  CHECK(c.rows.trials[1].outcome == Outcome::crashed);
  CHECK(c.last_cause() == records.flaw);
}

TEST_CASE("what a node agent has refused is neither measured nor run again") {
  Case c;
  c.trial(1, 1);
  RecordsSummary records;
  records.refusal = Outcome::rejected;
  records.refusal_message = "the container overrides the environment";
  c.decide();
  c.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::completed, .source = SaidBy::runner}},
      records);
  CHECK(c.rows.trials[1].state == State::ended);
  CHECK(c.rows.trials[1].outcome == Outcome::rejected);
  CHECK(c.last_cause() == records.refusal_message);
}

TEST_CASE("records of another attempt explain an exit without a result, and nothing else") {
  Case c;
  c.trial(1, 1);
  RecordsSummary records;
  records.flaw = "The result record has the run_id 'a'; this attempt's --run-id is 'b'.";
  c.decide();
  c.line(Ended{.attempt = 1,
             .ending = {.outcome = Outcome::crashed,
                 .cause = "exited 0 without a result",
                 .source = SaidBy::exit,
                 .exit_code = 0}},
      records);
  CHECK(c.last_cause() == records.flaw);
  c.decide();
  c.line(Ended{.attempt = 2,
             .ending = {.outcome = Outcome::oom,
                 .cause = "out of memory",
                 .source = SaidBy::exit,
                 .exit_code = 11}},
      records);
  CHECK(c.last_cause() == "out of memory");
  CHECK(c.rows.trials[1].outcome == Outcome::oom);
}

TEST_CASE("a crash is tried again once and is then the verdict") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.end(1, Outcome::crashed);
  CHECK(c.rows.trials[1].state == State::planned);
  c.decide();
  c.end(2, Outcome::crashed);
  CHECK(c.rows.trials[1].state == State::ended);
  CHECK(c.rows.trials[1].outcome == Outcome::crashed);
}

TEST_CASE("infrastructure failures do not count against the trial but end") {
  Case c;
  c.trial(1, 1);
  for (AttemptId id = 1; id <= c.policy.retry_elsewhere; ++id) {
    c.decide();
    c.end(id, Outcome::node_failure);
    CHECK(c.rows.trials[1].state == State::planned);
    CHECK(c.rows.trials[1].charged == 0);
  }
  c.decide();
  c.end(c.policy.retry_elsewhere + 1, Outcome::node_failure);
  CHECK(c.rows.trials[1].state == State::ended);
}

TEST_CASE("a line read twice is folded once") {
  Case c;
  c.trial(1, 1);
  c.decide();
  const FromLead ended{5, noon, Ended{.attempt = 1, .ending = {.outcome = Outcome::crashed}}};
  fold_line(c.fold(), c.policy, c.allocation().id, ended, RecordsSummary{});
  const auto count = c.world.changes().size();
  fold_line(c.fold(), c.policy, c.allocation().id, ended, RecordsSummary{});
  CHECK(c.world.changes().size() == count);
  CHECK(c.rows.trials[1].charged == 1);
}

TEST_CASE("when an allocation is gone results count and the rest is planned again") {
  Case c;
  for (TrialId id = 1; id <= 3; ++id)
    c.trial(id, 1);
  c.decide();
  c.line(Started{.attempt = 1});
  c.line(Started{.attempt = 2});
  RecordsSummary measured;
  measured.result = AddMeasurement{};
  fold_gone(c.fold(), c.policy, c.allocation().id, {{1, measured}, {2, {}}, {3, {}}}, "killed");
  CHECK(c.rows.trials[1].outcome == Outcome::completed);
  CHECK(c.rows.trials[2].state == State::planned);
  CHECK(c.rows.trials[2].elsewhere == 1);
  CHECK(c.rows.trials[3].state == State::planned);
  CHECK(c.rows.trials[3].elsewhere == 0);
  CHECK(c.allocation().state == State::ended);
}

TEST_CASE("a job that is not there is never taken for a completed one") {
  Case c;
  c.trial(1, 1);
  c.decide();
  fold_scheduler(c.fold(), JobNotSeen{c.allocation().token});
  CHECK(c.rows.trials[1].state == State::queued);
  fold_gone(c.fold(), c.policy, c.allocation().id, {{1, {}}}, "not there");
  CHECK(c.rows.trials[1].state == State::planned);
}

TEST_CASE("a paused sweep takes back what has not started and lets run what has") {
  Case c;
  c.trial(1, 1);
  c.trial(2, 2);
  c.decide();
  c.line(Started{.attempt = 1});
  c.rows.sweeps.at(1).state = SweepState::paused;
  const Orders orders = orders_for(c.world, c.allocation());
  CHECK(orders.revoke == std::vector<AttemptId>{2});
  CHECK(orders.cancel.empty());
  c.line(Revoked{2});
  CHECK(c.rows.trials[2].state == State::planned);
}

TEST_CASE("a cancelled trial's attempt is cancelled, and a result that comes all the same counts") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.line(Started{.attempt = 1});
  c.rows.trials[1].state = State::ended;
  c.rows.trials[1].outcome = Outcome::cancelled;
  CHECK(orders_for(c.world, c.allocation()).cancel == std::vector<AttemptId>{1});
  (void)c.world.take_changes();
  c.end(1, Outcome::completed, true);
  for (const Change& change : c.world.changes()) {
    if (const auto* put = std::get_if<PutAttempt>(&change)) CHECK(put->row.counted);
  }
  CHECK(c.rows.trials[1].outcome == Outcome::completed);
}

TEST_CASE("an allocation without work is drained at once") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.end(1, Outcome::completed, true);
  c.decide();
  CHECK(orders_for(c.world, c.allocation()).drain);
  CHECK(anything_alive(c.world));
}

TEST_CASE("a spent budget ends what waits and starts nothing") {
  Case c;
  c.input.sweeps[1].policy.max_gpu_hours = 1;
  c.input.sweeps[1].gpu_hours_used = 1.5;
  c.trial(1, 1);
  c.decide();
  CHECK(c.rows.allocations.empty());
  CHECK(c.rows.trials[1].outcome == Outcome::cancelled);
}

TEST_CASE("a full lane is drained and the rest gets another allocation") {
  Case c;
  c.input.sweeps[1].policy.lane_length = 1;
  c.trial(1, 1);
  c.trial(2, 2);
  c.decide();
  CHECK(c.rows.attempts.size() == 1);
  c.end(1, Outcome::completed, true);
  c.decide();
  CHECK(orders_for(c.world, c.allocation()).drain);
  CHECK(c.rows.attempts.size() == 1);
  fold_gone(c.fold(), c.policy, c.allocation().id, {}, "drained");
  c.decide();
  CHECK(c.rows.allocations.size() == 2);
  CHECK(c.rows.trials[2].state == State::queued);
}

TEST_CASE("what an edited file no longer has is taken back and not started") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.rows.trials[1].hidden = true;
  CHECK(orders_for(c.world, c.allocation()).revoke == std::vector<AttemptId>{1});
  c.line(Revoked{1});
  c.decide();
  CHECK(c.rows.attempts.size() == 1);
  fold_gone(c.fold(), c.policy, c.allocation().id, {}, "drained");
  CHECK_FALSE(anything_alive(c.world));
}

/// Trial 1 as a cancel and a resume leave it: attempt 1 runs on, revoked, and attempt 2 waits.
struct GoneOn : Case {
  GoneOn() {
    trial(1, 1);
    decide();
    line(Started{.attempt = 1});
    attempt(1).revoked = true;
    rows.trials[1].state = State::planned;
    decide();
    REQUIRE(rows.trials[1].state == State::queued);
  }
};

TEST_CASE("an attempt that the trial has gone on without changes nothing of it") {
  GoneOn c;
  CHECK(orders_for(c.world, c.allocation()).cancel == std::vector<AttemptId>{1});
  c.end(1, Outcome::cancelled);
  CHECK(c.rows.trials[1].state == State::queued);
  c.line(Started{.attempt = 2});
  CHECK(c.rows.trials[1].state == State::running);
}

TEST_CASE("a late result of an attempt that the trial has gone on without is not counted") {
  GoneOn c;
  const std::size_t before = c.world.changes().size();
  c.end(1, Outcome::completed, true);
  bool ended = false;
  for (std::size_t at = before; at < c.world.changes().size(); ++at) {
    const auto* put = std::get_if<PutAttempt>(&c.world.changes()[at]);
    if (put == nullptr || put->row.id != 1) continue;
    ended = put->row.state == State::ended;
    CHECK_FALSE(put->row.counted);
  }
  CHECK(ended);
  CHECK(c.rows.trials[1].state == State::queued);
}

TEST_CASE("a cancelled rerun that has measured all the same counts, whatever the trial said") {
  for (const Outcome before : {Outcome::cancelled, Outcome::oom, Outcome::crashed}) {
    CAPTURE(name(before));
    Case c;
    c.trial(1, 1);
    c.decide();
    c.line(Started{.attempt = 1});
    // As `cancel` leaves it before it knows of the result.
    c.rows.trials[1].state = State::ended;
    c.rows.trials[1].outcome = before;
    c.end(1, Outcome::completed, true);
    CHECK(c.rows.trials[1].outcome == Outcome::completed);
    CHECK(c.rows.attempts.at(1).counted);
  }
}

TEST_CASE("no more attempts are open at once than can be taken back quickly") {
  Case c;
  for (TrialId id = 1; id <= 200; ++id)
    c.trial(id, 1).predicted_s = 0;
  c.decide();
  CHECK(c.rows.attempts.size() == 64);
}

TEST_CASE("a daemon only waits while nothing of it runs and something is in a queue") {
  Case c;
  const Timestamp later = c.input.now + 10 * second;
  CHECK_FALSE(only_waits(c.world, later));
  c.trial(1, 1);
  c.decide();
  CHECK_FALSE(only_waits(c.world, later));  // this machine's allocation starts at once
  CHECK(live_in_jobs(c.world) == 0);
  c.allocation().backend = Backend::slurm;
  CHECK_FALSE(only_waits(c.world, c.input.now));  // idle nodes would start it now
  CHECK(only_waits(c.world, later));
  CHECK(live_in_jobs(c.world) == 1);
  c.line(Claimed{.token = c.allocation().token});
  CHECK_FALSE(only_waits(c.world, later));
  CHECK(live_in_jobs(c.world) == 1);
  c.allocation().state = State::ended;
  CHECK_FALSE(only_waits(c.world, later));
}

TEST_CASE(
    "an attempt that was cut short is the trial's measurement and says by what it was beaten") {
  Case c;
  c.trial(1, 1);
  c.decide();
  auto& attempt = c.attempt(1);
  attempt.leader = 7;
  attempt.leader_step_ms = 100;
  attempt.give_up_above_ms = 120;
  c.line(Claimed{});
  c.line(Started{1, attempt.nonce});
  RecordsSummary records;
  records.result.emplace().metrics["train_step_ms"] = 187;
  records.result->cut_short = true;
  c.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::completed}}, records);
  const TrialRow& trial = c.rows.trials.at(1);
  CHECK(trial.outcome == Outcome::completed);
  CHECK(trial.charged == 0);
  CHECK(trial.cause ==
      "Cut short: 187 ms per train step, 1.87 times the 100 ms of its cell's best "
      "(search.cut_short is 1.2).");
  CHECK(c.attempt(1).counted);
}

TEST_CASE("what the runner says of its clock goes before what the node agents have seen") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.line(Claimed{});
  c.line(Started{1, c.attempt(1).nonce});
  RecordsSummary records;
  records.result.emplace().metrics["tokens_per_s_per_gpu"] = 1;
  std::string throttled = "power cap";
  SUBCASE("it says nothing") {}
  SUBCASE("it says something") {
    records.result->metrics["sm_clock_mhz"] = 1980;
    throttled = "";
  }
  const bool said = !records.result->metrics.contains("sm_clock_mhz");
  c.line(Ended{.attempt = 1,
             .ending = {.outcome = Outcome::completed},
             .sm_clock_mhz = 1755,
             .power_w = 600,
             .throttled = "power cap"},
      records);
  std::vector<AddMeasurement> measured;
  for (const Change& change : c.world.changes()) {
    if (const auto* one = std::get_if<AddMeasurement>(&change)) measured.push_back(*one);
  }
  REQUIRE(measured.size() == 1);
  CHECK(measured.front().metrics.at("sm_clock_mhz") == (said ? 1755 : 1980));
  CHECK(measured.front().metrics.at("power_w") == 600);
  CHECK(measured.front().throttled == throttled);
}

TEST_CASE("a result of unknown programs is not counted and the trial runs again") {
  Case c;
  c.trial(1, 1);
  c.decide();
  c.line(Claimed{});
  c.line(Started{1, c.attempt(1).nonce});
  RecordsSummary records;
  records.code_unknown = true;
  fold_gone(c.fold(), c.policy, c.allocation().id, {{1, records}}, "NODE_FAIL");
  CHECK(c.attempt(1).outcome() == Outcome::lost);
  CHECK_FALSE(c.attempt(1).counted);
  CHECK(c.last_cause().find("whether its programs had changed") != std::string::npos);
  CHECK(c.rows.trials.at(1).state == State::planned);
  CHECK(c.rows.trials.at(1).charged == 0);
}
