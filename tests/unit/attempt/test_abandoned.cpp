// SPDX-License-Identifier: Apache-2.0
#include "attempt/abandoned.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using Found = std::vector<std::size_t>;

TEST_CASE("a marker is a token, an attempt or an agent, and a node") {
  CHECK(parse_marker("3f9a/17/n1") == Marker{"3f9a", 17, "n1"});
  CHECK(parse_marker("3f9a/agent/n1") == Marker{"3f9a", 0, "n1"});
  CHECK(parse_marker("3f9a/agent") == Marker{"3f9a", 0, ""});
  for (const char* text : {"", "3f9a", "/17/n1", "3f9a/", "3f9a/x/n1", "3f9a/17x/n1", "3f9a/-1/n1",
           "3f9a/0/n1", "3f9a/99999999999999999999/n1"})
    CHECK_MESSAGE(!parse_marker(text), text);
}

TEST_CASE("of one's own allocation every attempt but the running one is over") {
  const std::vector<MarkerSighting> seen{
      {"mine/agent", false}, {"mine/1/n1", false}, {"mine/2/n1", false}, {"mine/1/n2", false}};
  CHECK(abandoned(seen, {}, "mine", "n1", 0) == Found{1, 2});
  CHECK(abandoned(seen, {}, "mine", "n1", 2) == Found{1});
}

TEST_CASE("what another allocation runs is left alone while an agent or a step of it lives") {
  const std::vector<MarkerSighting> alive{{"other/agent/n1", false}, {"other/1/n1", false}};
  CHECK(abandoned(alive, {}, "mine", "n1", 0).empty());
  const std::vector<MarkerSighting> step{{"other/1/n1", true}, {"other/1/n1", false}};
  CHECK(abandoned(step, {}, "mine", "n1", 0) == Found{1});
  CHECK(abandoned({{"other/1/n9", false}}, {}, "mine", "n1", 0) == Found{0});
  // The first look has passed by its agent.
  CHECK(abandoned({{"other/1/n9", false}}, {{"other/agent", false}}, "mine", "n1", 0).empty());
  CHECK(abandoned({{"other/1/n9", false}}, {{"third/agent", false}}, "mine", "n1", 0) == Found{0});
}

TEST_CASE("a marker that is none belongs to nobody of us") {
  CHECK(abandoned({{"whatever", false}, {"mine", false}}, {}, "mine", "n1", 0).empty());
}

TEST_CASE("a job is on the list by its whole number") {
  CHECK(lists_job("12\n123\n", "123"));
  CHECK(lists_job("12\n123\n", "12"));
  CHECK(!lists_job("123\n", "12"));
  CHECK(!lists_job("12\n", "123"));
  CHECK(!lists_job("123", "123"));
  CHECK(!lists_job("\n123\n", ""));
  CHECK(!lists_job("", "1"));
}
