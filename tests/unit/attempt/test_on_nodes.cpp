// SPDX-License-Identifier: Apache-2.0
#include "attempt/roster.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

AttemptOnNodes attempt(double teardown_limit_s = 30) {
  Assign assign;
  assign.attempt = 7;
  AttemptSpec spec;
  spec.limits.teardown_limit_s = teardown_limit_s;
  return {assign, spec};
}

NodeEnded ended(Outcome outcome) {
  return {.attempt = 7, .ending = {.outcome = outcome}};
}

}  // namespace

TEST_CASE("peers of a node that has failed get two seconds and are then ended once") {
  AttemptOnNodes running = attempt();
  running.see("n1", ended(Outcome::crashed), 10);
  CHECK_FALSE(running.has_ended_on(2));
  CHECK_FALSE(running.end_others(12).has_value());
  const auto end = running.end_others(12.1);
  REQUIRE(end.has_value());
  CHECK(*end == EndAttempt{7, Outcome::crashed, "a rank elsewhere has failed"});
  CHECK_FALSE(running.end_others(13).has_value());
  running.see("n2", ended(Outcome::crashed), 13);
  CHECK(running.has_ended_on(2));
}

TEST_CASE("peers of a node that is through get the time of a teardown") {
  AttemptOnNodes running = attempt();
  running.see("n1", ended(Outcome::completed), 10);
  CHECK_FALSE(running.end_others(40).has_value());
  CHECK(running.end_others(40.1)->outcome == Outcome::hung);
  AttemptOnNodes unlimited = attempt(0);
  unlimited.see("n1", ended(Outcome::completed), 10);
  CHECK_FALSE(unlimited.end_others(1e9).has_value());
  unlimited.see("n2", ended(Outcome::crashed), 20);
  CHECK(unlimited.end_others(23)->outcome == Outcome::crashed);
}

TEST_CASE("the lead has one reason to end an attempt and asks about no other") {
  AttemptOnNodes running = attempt();
  CHECK(running.see(Suspect{7, 5, "no train step"}, 10));
  running.see("n1", NoProgress{7, 6});
  running.see("n2", NoProgress{7, 6});
  CHECK(running.hung_because(2, 10).has_value());
  CHECK(running.hold_against_it({1, {Outcome::cancelled, "on request", SaidBy::request}}));
  CHECK_FALSE(running.hold_against_it({2, {Outcome::hung, "stands still", SaidBy::policy}}));
  CHECK(running.own()->ending.cause == "on request");
  CHECK_FALSE(running.hung_because(2, 10).has_value());
  CHECK_FALSE(running.see(Suspect{7, 5, "no train step"}, 100));
}

TEST_CASE("the node that is furthest speaks for the attempt") {
  AttemptOnNodes running = attempt();
  CHECK(running.beat() == Beat{7, "", 0});
  CHECK_FALSE(running.see("n1", NodeBeat{7, "train", 5}));
  CHECK_FALSE(running.see("n2", NodeBeat{7, "start", 0}));
  CHECK(running.beat() == Beat{7, "train", 5});
  CHECK_FALSE(running.see("n1", NodeBeat{6, "train", 6, true}));
  CHECK(running.see("n1", NodeBeat{7, "train", 6, true}));
  CHECK_FALSE(running.see("n2", NodeBeat{7, "train", 6, true}));
}
