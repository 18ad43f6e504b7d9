// SPDX-License-Identifier: Apache-2.0
// Side runs on a played site: the winner of a cell runs once more behind all others, whatever
// dies, and nothing that is ranked or counted knows of it.
#include "unit/daemon/daemon_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using shardsweep::testing::Case;
using shardsweep::testing::PlayedSweep;

namespace {

PlayedSweep profiled(const std::string& more = "") {
  return {.settings = more + "profile: {finalists: nsys}"};
}

std::int64_t measured(Case& c) {
  return c.count("attempts WHERE counted = 1");
}

void end_one(Case& c, Outcome outcome = Outcome::completed) {
  c.run_attempt(c.job(), outcome);
  c.pass(2);
}

}  // namespace

TEST_CASE("the winner runs once more, and the run is not counted") {
  Case c(profiled());
  c.complete();
  CHECK(c.count("side_runs") == 1);
  CHECK(c.sql("SELECT tool || ' ' || outcome || ' ' || (trial = of_trial || '-profile') FROM "
              "side_runs") == "profile completed 1");
  CHECK(measured(c) == 2);
  CHECK(c.count("attempts") == 3);
  CHECK(c.count("measurements") == 2);
  CHECK(c.count("results") == 2);
  CHECK(c.sql("SELECT count(DISTINCT allocation) FROM attempts") == "1");
}

TEST_CASE("at no moment a sweep with a profile to come looks ended, and a death repeats none") {
  for (const bool dies : {false, true}) {
    CAPTURE(dies);
    Case c(profiled());
    c.pass(12);
    c.start_job(c.job());
    for (int trial = 0; trial < 3; ++trial) {
      CHECK(c.count("trials WHERE state <> 'ended'") > 0);
      end_one(c);
      if (!dies) continue;
      c.die();
      c.start();
      c.pass(2);
    }
    CHECK(c.count("trials WHERE state <> 'ended'") == 0);
    c.complete();
    CHECK(c.count("side_runs") == 1);
    CHECK(c.count("attempts") == 3);
  }
}

TEST_CASE("a profile comes behind the finals") {
  Case c(profiled("measure: {finalists: 2, repeats: 2}\n"));
  c.complete();
  CHECK(measured(c) == 6);
  CHECK(c.count("side_runs") == 1);
  CHECK(c.sql("SELECT max(t.id) = (SELECT trial_id FROM side_runs) FROM attempts AS a JOIN "
              "trials AS t ON t.id = a.trial") == "1");
  CHECK(c.count("attempts") == 7);
}

TEST_CASE("a profile that fails takes nothing from its sweep") {
  Case c(profiled());
  c.pass(12);
  c.start_job(c.job());
  end_one(c);
  end_one(c);
  end_one(c, Outcome::oom);
  c.complete();
  CHECK(c.sql("SELECT outcome FROM side_runs") == "oom");
  CHECK(measured(c) == 2);
  CHECK(c.count("results WHERE outcome <> 'completed'") == 0);
}

TEST_CASE("a cancelled sweep cancels its profile, and resume goes on with it") {
  Case c(profiled());
  c.pass(12);
  c.start_job(c.job());
  end_one(c);
  end_one(c);
  CHECK(c.count("side_runs WHERE state <> 'ended'") == 1);
  (void)c.ask(Verb::cancel, {"a"});
  c.complete();
  CHECK(c.sql("SELECT outcome FROM side_runs") == "cancelled");
  (void)c.ask(Verb::resume, {"a"});
  c.tick();
  c.complete();
  CHECK(c.sql("SELECT outcome FROM side_runs") == "completed");
  CHECK(c.count("side_runs") == 1);
}

TEST_CASE("a sweep that has ended gets its profile when its file asks for one") {
  Case c;
  c.complete();
  CHECK(c.count("side_runs") == 0);
  c.submit(profiled());
  c.tick();
  c.complete();
  CHECK(c.sql("SELECT outcome FROM side_runs") == "completed");
  CHECK(measured(c) == 2);
}
