// SPDX-License-Identifier: Apache-2.0
#include "fleet/stops.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

StopEvent stop(SweepId sweep, const char* place, const char* file = "/f/1.txt") {
  return {sweep, false, stop_text(place, "a rule: with words (and more)", file)};
}
StopEvent resume(SweepId sweep) {
  return {sweep, true, "user@host"};
}

}  // namespace

TEST_CASE("one stop holds nobody apart, and a second at the same place does") {
  CHECK(held_apart({}).empty());
  CHECK(held_apart({stop(1, "a.cpp:1")}).empty());
  const auto apart = held_apart({stop(1, "a.cpp:1"), stop(1, "a.cpp:1", "/f/2.txt")});
  REQUIRE(apart.size() == 1);
  CHECK(apart.at(1).find("paused: shardsweep stopped twice at a.cpp:1 while handling this "
                         "sweep; see /f/2.txt,") == 0);
}

TEST_CASE("another place, another sweep or none is another matter") {
  CHECK(held_apart({stop(1, "a.cpp:1"), stop(1, "a.cpp:11")}).empty());
  CHECK(held_apart({stop(1, "a.cpp:1"), stop(2, "a.cpp:1")}).empty());
  CHECK(held_apart({stop(0, "a.cpp:1"), stop(0, "a.cpp:1")}).empty());
}

TEST_CASE("resume is one more try") {
  std::vector<StopEvent> events{stop(1, "a.cpp:1"), stop(1, "a.cpp:1"), resume(1)};
  CHECK(held_apart(events).empty());
  SUBCASE("which fails at the same place") {
    events.push_back(stop(1, "a.cpp:1"));
    CHECK(held_apart(events).at(1).find("stopped 3 times at a.cpp:1") != std::string::npos);
  }
  SUBCASE("which comes further") {
    events.push_back(stop(1, "b.cpp:2"));
    CHECK(held_apart(events).empty());
  }
  SUBCASE("of this sweep alone") {
    events = {stop(1, "a.cpp:1"), stop(1, "a.cpp:1"), resume(2)};
    CHECK(held_apart(events).contains(1));
  }
}
