// SPDX-License-Identifier: Apache-2.0
// Jobs that begin and bring nothing to its end: whether the node, the site or the leads are to
// blame, and what becomes of the sweep.
#include "unit/daemon/daemon_case.hpp"

using namespace shardsweep;
using shardsweep::testing::Case;

TEST_CASE("a node on which no lead starts is excluded, and the sweep goes on") {
  Case c;
  for (int i = 0; i < 2; ++i) {
    c.slurm.start(c.job(), c.random);
    c.job().nodes = "n2";
    c.slurm.finish(c.job(), "FAILED", 1);
    c.pass(90);
  }
  CHECK(c.sql("SELECT state FROM node_states WHERE node = 'n2'") == "quarantined");
  CHECK(c.status().state == "active");
  REQUIRE(c.slurm.jobs.size() == 3);
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("leads that start on no node pause the sweep, and no node is excluded") {
  Case c;
  for (const std::string node : {"n1", "n2", "n3"}) {
    c.slurm.start(c.job(), c.random);
    c.job().nodes = node;
    c.slurm.finish(c.job(), "FAILED", 1);
    c.pass(90);
  }
  CHECK(c.status().state == "paused");
  CHECK(c.status().waiting.find("on node n3") != std::string::npos);
  CHECK(c.sql("SELECT count(*) FROM node_states WHERE state <> 'trusted'") == "0");
}

TEST_CASE("leads that die with all that they have started pause the sweep") {
  Case c;
  for (int i = 0; i < 3; ++i) {
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.pass(2);
    c.slurm.finish(c.job(), "FAILED", 137);
    c.pass(90);
  }
  CHECK(c.status().state == "paused");
  CHECK(c.status().waiting.find("3 allocations in a row failed") != std::string::npos);
  CHECK(c.sql("SELECT count(*) FROM attempts WHERE outcome = 'lost'") == "3");
}

TEST_CASE("a lead that has brought something to its end has not failed at its start") {
  Case c({.settings = "limits: {max_allocations: 1}"});
  for (int i = 0; i < 3 && c.status().state == "active"; ++i) {
    c.start_job(c.job());
    c.run_attempt(c.job(), Outcome::crashed);
    if (c.job().lead->start_next(c.slurm.lead_time(c.job()))) c.pass(2);
    c.slurm.finish(c.job(), "FAILED", 137);
    c.pass(90);
  }
  CHECK(c.status().waiting.find("in a row failed") == std::string::npos);
}
