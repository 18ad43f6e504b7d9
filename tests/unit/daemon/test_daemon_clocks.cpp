// SPDX-License-Identifier: Apache-2.0
// The daemon's time: clocks of nodes and of the login node that are off or are set, silent
// leads, deaths of hours.
#include "unit/daemon/daemon_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using shardsweep::testing::Case;
using shardsweep::testing::one;
using shardsweep::testing::Sbatch;

TEST_CASE("a silent lead is given up by a daemon that never heard it") {
  Case c(one);
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(12);
  c.die();
  c.start();
  c.tick(1);
  c.job().silent = c.job().was_silent = true;
  c.die();
  c.start();
  c.pass(140, 5);
  CHECK(c.slurm.calls.cancels == 0);
  c.pass(60, 5);
  CHECK(c.slurm.jobs.front().over());
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "node_failure");
}

TEST_CASE("a daemon that was dead for hours books an attempt by its lead's clock") {
  Case c(one);
  c.start_job(c.job());
  c.pass(12);
  c.die();
  c.run_attempt(c.job(), Outcome::completed, 30);
  c.clock.advance(Timestamp{36'000} * 1'000'000);
  c.start();
  c.complete();
  CHECK(c.sql("SELECT (ended_at - started_at) / 1000000 FROM attempts") == "30");
}

TEST_CASE("a killed attempt ends with its lead's last word") {
  Case c(one);
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(20);
  c.die();
  c.slurm.finish(c.job(), "NODE_FAIL");
  c.clock.advance(Timestamp{36'000} * 1'000'000);
  c.start();
  c.pass(30);
  // Its last beat.
  CHECK(c.sql("SELECT (ended_at - started_at) / 1000000 FROM attempts WHERE id = 1") == "15");
}

TEST_CASE("a node whose clock is late or early is not silent") {
  for (const Timestamp ahead : {-3600, -150, 150, 3600}) {
    CAPTURE(ahead);
    Case c(one);
    c.job().clock_ahead = ahead * 1'000'000;
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.pass(400, 5);
    CHECK(c.trials() == "running");
    c.job().lead->end(Outcome::completed, c.slurm.lead_time(c.job()));
    c.complete();
    CHECK(c.trials() == "completed");
  }
}

TEST_CASE("an attempt whose node's clock is set back has not ended before it started") {
  Case c(one);
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(12);
  c.job().clock_ahead = Timestamp{-3600} * 1'000'000;
  c.job().lead->end(Outcome::completed, c.slurm.lead_time(c.job()));
  c.complete();
  CHECK(c.sql("SELECT ended_at - started_at FROM attempts") == "0");
}

TEST_CASE("a step of the login node's clock is no lead's silence") {
  for (const Timestamp ahead : {-7200, -300, 300, 7200}) {
    CAPTURE(ahead);
    Case c(one);
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.pass(30);
    c.clock.set_wall_ahead(ahead * 1'000'000);
    c.pass(400, 5);
    CHECK(c.trials() == "running");
    c.job().lead->end(Outcome::completed, c.slurm.lead_time(c.job()));
    c.complete();
    CHECK(c.trials() == "completed");
  }
}

TEST_CASE("a process that has heard no line judges no lead by its clock") {
  // The second daemon has stored what it heard: the third one has no line to read.
  for (const bool again : {false, true}) {
    CAPTURE(again);
    Case c(one);
    c.job().clock_ahead = Timestamp{-3600} * 1'000'000;
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.pass(12);
    for (int lives = 0; lives < 2; ++lives) {
      c.die();
      c.start();
      c.tick(0.25);
    }
    if (again) c.die();
    c.clock.set_wall_ahead(Timestamp{160} * 1'000'000);
    c.start();
    c.tick(1);
    CHECK(c.slurm.calls.cancels == 0);
    CHECK(c.trials() == "running");
  }
}

TEST_CASE("a step of the clock makes no job's claim late and no search longer") {
  Case c({.settings = "daemon: {claim_limit: 120s}\n", .micro_batch = {1, 2}});
  c.slurm.start(c.job(), c.random);
  c.pass(12);
  c.clock.set_wall_ahead(Timestamp{7200} * 1'000'000);
  c.pass(30);
  CHECK(c.slurm.calls.cancels == 0);
  REQUIRE(c.job().lead->claim(c.slurm.lead_time(c.job())));
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("an attempt has no negative duration whatever the clocks say") {
  for (const Timestamp ahead : {-3600, 3600}) {
    CAPTURE(ahead);
    Case c(one);
    c.job().clock_ahead = ahead * 1'000'000;
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.pass(20);
    c.slurm.finish(c.job(), "NODE_FAIL");
    c.pass(30);
    CHECK(c.sql("SELECT (ended_at - started_at) / 1000000 FROM attempts WHERE id = 1") == "15");
  }
}

TEST_CASE("a clock that is set back does not lengthen a deferral") {
  Case c(Sbatch::defers);
  c.clock.set_wall_ahead(Timestamp{-7200} * 1'000'000);
  c.pass(30);
  CHECK(c.slurm.calls.submissions == 2);
}

TEST_CASE("a clock that is set back does not lengthen the search for a job") {
  Case c(Sbatch::unsent);
  c.pass(35);
  CHECK(c.sql("SELECT missing FROM allocations") == "job");
  c.die();
  c.clock.set_wall_ahead(Timestamp{-7200} * 1'000'000);
  c.start();
  c.pass(60);
  CHECK(c.slurm.calls.submissions == 2);
}
