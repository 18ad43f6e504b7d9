// SPDX-License-Identifier: Apache-2.0
#include "attempt/gpu_use.hpp"
#include "attempt/life.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <ostream>

using namespace shardsweep;

namespace {

using Order = AttemptLife::Order;
using Stage = AttemptLife::Stage;

constexpr double start_s = 1000;

AttemptSpec spec_with_limits() {
  AttemptSpec spec;
  spec.attempt = 7;
  spec.nonce = "0123abcd";
  spec.world = 2;
  spec.ranks_per_node = 2;
  spec.limits.grace_s = 5;
  return spec;
}

Moment at(double s) {
  return {start_s + s, static_cast<Timestamp>(s * 1e6)};
}

Evidence exit_of(int rank, double s) {
  return *evidence_of_exit(rank, 1, at(s).at, "");
}

struct Life : AttemptLife {
  explicit Life(const AttemptSpec& spec = spec_with_limits()) : AttemptLife(spec, true, start_s) {}
  Order running(double s, bool gone = false) {
    return next_of_running({.ranks_gone = gone}, at(s));
  }
};

}  // namespace

TEST_CASE("ranks that have all exited 0 are settled and reaped") {
  Life life;
  CHECK(life.running(1) == Order::judge);
  life.see_exit(0, {}, at(2));
  life.see_exit(1, {}, at(2));
  life.findings().see_result();
  CHECK(life.running(2, true) == Order::settle);
  CHECK(life.next_of_settling(true, at(2.05).s) == Order::wait);
  CHECK(life.next_of_settling(true, at(2.2).s) == Order::reap);
  CHECK_FALSE(life.has_reaped(false, at(3).s));
  CHECK(life.has_reaped(true, at(3).s));
  life.finish(at(3).s);
  CHECK(life.stage() == Stage::over);
  CHECK(life.findings().verdict(true).ending.outcome == Outcome::completed);
}

TEST_CASE("peers of a rank that has failed get a moment before they are ended") {
  Life life;
  life.see_exit(1, exit_of(1, 1), at(1));
  CHECK(life.running(2) == Order::wait);
  CHECK(life.running(3.1) == Order::terminate);
  CHECK(life.stage() == Stage::ending);
  SUBCASE("and SIGKILL after their grace") {
    CHECK(life.next_of_ending(false, at(8).s) == Order::wait);
    CHECK(life.next_of_ending(false, at(8.2).s) == Order::kill);
    CHECK(life.stage() == Stage::ending);
    CHECK(life.next_of_ending(false, at(39).s) == Order::kill);
    CHECK(life.stage() == Stage::reaping);
  }
  SUBCASE("and nothing more once they have left") {
    CHECK(life.next_of_ending(true, at(4).s) == Order::settle);
  }
  CHECK(life.findings().verdict(true).ending.outcome == Outcome::crashed);
}

TEST_CASE("a step that outlives its failed task by a minute is ended") {
  AttemptSpec spec = spec_with_limits();
  spec.limits.init_limit_s = 10;
  Life life(spec);
  life.see_failing(exit_of(1, 1), at(1).s);
  CHECK(life.running(2) == Order::wait);
  SUBCASE("what stands still meanwhile is no hang") {
    CHECK(life.running(50) == Order::wait);
    CHECK_FALSE(life.suspicion(at(50).s, {0}));
    CHECK(life.running(61.5) == Order::terminate);
    CHECK(life.stage() == Stage::ending);
    const Ending ending = life.findings().verdict(true).ending;
    CHECK(ending.outcome == Outcome::crashed);
    CHECK(ending.cause == exit_of(1, 1).ending.cause);
  }
  SUBCASE("time in which nobody ran does not count") {
    life.stretch(100);
    CHECK(life.running(150) == Order::wait);
    CHECK(life.running(161.5) == Order::terminate);
  }
  SUBCASE("mostly Slurm ends it before") {
    life.see_exit(-1, exit_of(1, 3), at(3));
    CHECK(life.running(3, true) == Order::settle);
  }
}

TEST_CASE("a rank that dies of SIGTERM may have been told by the scheduler") {
  Life life;
  life.findings().see_termination(at(1).s);
  life.see_exit(0, evidence_of_signal(0, SIGTERM, at(1).at, false), at(1));
  CHECK(life.running(1.9, true) == Order::wait);
  SUBCASE("which tells us too") {
    life.findings().told_to_stop(at(1.9).s);
    CHECK(life.running(1.9, true) == Order::settle);
    CHECK(life.findings().verdict(true).ending.outcome == Outcome::preempted);
  }
  SUBCASE("or by somebody else") {
    CHECK(life.running(2.1, true) == Order::settle);
    life.findings().told_to_stop(at(9).s);
    CHECK(life.findings().verdict(true).ending.outcome == Outcome::crashed);
  }
}

TEST_CASE("whoever is to leave has no time for evidence") {
  Life life;
  CHECK(life.end(Outcome::hung, "stands still", at(1)) == Order::look);
  CHECK(life.end(Outcome::hung, "once more", at(2)) == Order::wait);
  CHECK(life.end(Outcome::cancelled, "on request", at(3)) == Order::terminate);
  CHECK(life.end(Outcome::cancelled, "once more", at(3)) == Order::wait);
  const Evidence first = life.findings().verdict(true);
  CHECK(first.ending.outcome == Outcome::hung);
  CHECK(first.ending.cause == "stands still");
}

TEST_CASE("the version of a trainer is waited for and may be refused") {
  Life waits;
  CHECK(waits.next_of_running({.ranks_gone = true, .awaits_version = true}, at(1)) == Order::wait);
  CHECK(waits.next_of_running({.ranks_gone = true}, at(2)) == Order::settle);
  Life refused;
  CHECK(refused.next_of_running({.refused_version = "version 9 is not read"}, at(1)) ==
      Order::terminate);
  CHECK(refused.findings().verdict(true).ending.outcome == Outcome::rejected);
}

TEST_CASE("an attempt that is hopeless ends as cut short by this node") {
  AttemptSpec spec = spec_with_limits();
  spec.give_up_above_ms = 100;
  spec.tokens_per_step = 10;
  Life life(spec);
  for (int step = 0; step < 2; ++step)
    life.see(0, {.type = RecordType::train_step, .step_ms = 500, .timed = true}, at(1));
  life.set_cut_elsewhere();
  CHECK(life.running(2) == Order::terminate);
  CHECK(life.is_cut_here());
  // What ranks complain about after that is our doing.
  life.see(0, {.type = RecordType::error, .t = 5, .message = "terminated"}, at(3));
  CHECK(life.findings().empty());
}

TEST_CASE("no stage is entered twice") {
  Life life;
  life.begin_ending(at(1).s);
  CHECK_THROWS(life.begin_ending(at(2).s));
}

TEST_CASE("an exit with 0 counts as a failure only if no result is found") {
  Findings findings;
  findings.see_early_exit(0, 5);
  CHECK(findings.verdict(true).ending.outcome == Outcome::crashed);
  CHECK(findings.verdict(false).ending.outcome == Outcome::completed);
  findings.see_result();
  CHECK(findings.verdict(true).ending.outcome == Outcome::completed);
  SUBCASE("that of a container that has changed what counts is none") {
    findings.refuse({6, {Outcome::rejected, "its container has changed X", SaidBy::agent}});
    CHECK(findings.verdict(true).ending.outcome == Outcome::rejected);
  }
}

// N14: called `crashed` after the teardown's 60 s, and rank 1 was not named.
TEST_CASE("a rank that runs on for ever after rank 0 has left is hung, and named") {
  auto spec = spec_with_limits();
  spec.limits.step_limit_s = 8;
  spec.limits.teardown_limit_s = 60;
  Life life(spec);
  life.see(0, {.type = RecordType::phase, .phase = "train"}, at(1));
  life.see(0, {.type = RecordType::train_step, .step = 1, .step_ms = 100}, at(2));
  life.see_exit(0, {}, at(3));
  CHECK_FALSE(life.suspicion(at(10).s, {1}));
  const auto suspicion = life.suspicion(at(11.5).s, {1});
  REQUIRE(suspicion);
  CHECK(suspicion->why ==
      "rank 0 exited 0 without a result, rank 1 ran on: no progress in phase 'teardown' for "
      "8.5 s (limit 8 s), last record: train_step 1");
  CHECK(life.end(Outcome::hung, suspicion->why, at(11.5)) == Order::look);
  const auto ending = life.findings().verdict(true).ending;
  CHECK(ending.outcome == Outcome::hung);
  CHECK(ending.cause == suspicion->why);
  // With a result the others have the time of a teardown.
  Life measured(spec);
  measured.see_exit(1, {}, at(3));
  measured.see(0, {.type = RecordType::result, .nonce = spec.nonce}, at(3));
  CHECK_FALSE(measured.suspicion(at(50).s, {0}));
  const auto late = measured.suspicion(at(70).s, {0});
  REQUIRE(late);
  CHECK(late->why.starts_with("rank 1 exited 0, rank 0 ran on: no progress in phase 'teardown'"));
  CHECK(measured.end(Outcome::hung, late->why, at(70)) == Order::look);
  const auto counted = measured.findings().verdict(true).ending;
  CHECK(counted.outcome == Outcome::completed);
  CHECK(counted.cause.empty());
  CHECK(counted.also == "hung: " + late->why);
  // Where nobody has left, all of them would train for ever, as their trainer does.
  Life endless(spec);
  endless.see(0, {.type = RecordType::result, .nonce = spec.nonce}, at(3));
  const auto all = endless.suspicion(at(70).s, {0, 1});
  REQUIRE(all);
  CHECK(endless.end(Outcome::hung, all->why, at(70)) == Order::look);
  CHECK(endless.findings().verdict(true).ending.cause == "after the result: " + all->why);
  CHECK(endless.findings().verdict(true).ending.also.empty());
}

TEST_CASE("an ending tells what was seen beside its first cause") {
  Beside beside;
  for (const char* name : {"a", "b", "c", "d"})
    beside.add_leftover(name);
  beside.garbage = 2;
  beside.nccl = "NCCL on rank 0: no route";
  beside.facts.mark = Mark::contaminated;
  beside.facts.also = "others used 40 % of the CPUs";
  Ending ending{Outcome::crashed, "rank 0 exited 1", SaidBy::agent};
  beside.tell(ending);
  CHECK(ending.leaked == 4);
  CHECK(ending.cause ==
      "rank 0 exited 1; ended leftover processes (4): 'a', 'b', 'c'; 2 lines in the records "
      "are "
      "not JSON records");
  CHECK(ending.mark == Mark::contaminated);
  CHECK(ending.also == "others used 40 % of the CPUs");
}

TEST_CASE("GPUs are looked at once a second while train steps are timed") {
  PaceLooks pace(1);
  const Record step{.type = RecordType::train_step, .step_ms = 10};
  CHECK_FALSE(pace.take_due(1));
  pace.see(step);
  CHECK_FALSE(pace.timed());
  pace.see(step);
  CHECK(pace.timed());
  CHECK(pace.take_due(1));
  CHECK_FALSE(pace.take_due(1.5));
  CHECK(pace.take_due(2));
}
