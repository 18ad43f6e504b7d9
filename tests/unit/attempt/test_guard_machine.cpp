// SPDX-License-Identifier: Apache-2.0
#include "attempt/guard_machine.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <ostream>

using namespace shardsweep;

TEST_CASE("a guard ends what its agent has left, and passes its exit code on") {
  GuardMachine guard;
  CHECK(guard.next() == GuardMachine::Order::wait);
  guard.see_agent_end(71, 0);
  CHECK(guard.next() == GuardMachine::Order::end_children);
  SUBCASE("all of it") {
    guard.has_ended(true);
    CHECK(guard.next() == GuardMachine::Order::leave);
    CHECK(guard.exit_code() == 71);
  }
  SUBCASE("as far as it can be ended") {
    guard.has_ended(false);
    CHECK(guard.exit_code() == exit_guard_failed);
  }
}

TEST_CASE("a guard says by which signal its agent has ended before it ends anything else") {
  GuardMachine guard;
  guard.see_agent_end(0, SIGKILL);
  CHECK(guard.next() == GuardMachine::Order::say_killed);
  CHECK(guard.signal() == SIGKILL);
  guard.see_agent_end(0, 0);  // an orphan that came later
  CHECK(guard.next() == GuardMachine::Order::say_killed);
  guard.has_said();
  CHECK(guard.next() == GuardMachine::Order::end_children);
  guard.has_ended(true);
  // Who kills the whole step may not have come to the guard yet: then srun says 137, not 72.
  CHECK(guard.next() == GuardMachine::Order::await_own_kill);
  guard.has_outlived_its_agent();
  CHECK(guard.next() == GuardMachine::Order::leave);
  CHECK(guard.exit_code() == exit_agent_killed);
  CHECK(
      finding_of_killed_agent("n1", SIGKILL).detail == "the node agent of n1 was ended by SIGKILL");
}

TEST_CASE("a guard leaves at once if its agent has ended by any signal but SIGKILL") {
  GuardMachine guard;
  guard.see_agent_end(0, SIGSEGV);
  guard.has_said();
  guard.has_ended(true);
  CHECK(guard.next() == GuardMachine::Order::leave);
  CHECK(guard.exit_code() == exit_agent_killed);
}

TEST_CASE("a guard that has nothing to wait for leaves") {
  GuardMachine guard;
  guard.see_nothing_left();
  CHECK(guard.next() == GuardMachine::Order::end_children);
  guard.has_ended(true);
  CHECK(guard.exit_code() == 0);
}
