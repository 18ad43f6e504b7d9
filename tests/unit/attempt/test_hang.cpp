// SPDX-License-Identifier: Apache-2.0
#include "attempt/hang.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

const Suspect suspicion{7, 5.0, "nothing moves"};

HangQuestion asked_at(double now_s) {
  HangQuestion question;
  REQUIRE(question.suspect(suspicion, now_s));
  return question;
}

}  // namespace

TEST_CASE("a hang is one when every node has said that nothing moves") {
  HangQuestion question = asked_at(100);
  CHECK(!question.verdict(2, 100));
  question.answer("n1", {7, 5.1});
  CHECK(!question.verdict(2, 100));
  question.answer("n2", {7, 5.0});
  CHECK(question.verdict(2, 100) == "nothing moves");
  CHECK(!question.verdict(2, 100));
}

TEST_CASE("a node on which something moves has the question asked again when it could be true") {
  HangQuestion question = asked_at(100);
  question.answer("n1", {7, 5.1});
  question.answer("n2", {7, 2.0});
  CHECK(!question.verdict(2, 100.1));
  CHECK(!question.suspect(suspicion, 103.0));
  CHECK(question.suspect(suspicion, 103.1));
  question.answer("n1", {7, 8.1});
  question.answer("n2", {7, 5.1});
  CHECK(question.verdict(2, 103.1) == "nothing moves");
}

TEST_CASE("a node without flight recorders has no say, nor has an answer about another attempt") {
  HangQuestion question = asked_at(100);
  question.answer("n1", {7, 5.1});
  question.answer("n2", {6, 9.0});
  CHECK(!question.verdict(2, 100));
  question.answer("n2", {7, -1});
  CHECK(question.verdict(2, 100));
}

TEST_CASE("who owes an answer for a second is asked again") {
  HangQuestion question = asked_at(100);
  CHECK(!question.suspect(suspicion, 100.5));
  CHECK(question.suspect(suspicion, 101));
}

TEST_CASE("the recorders' accusation names rank, node and what the others wait in") {
  RecorderReading reading;
  CHECK(accusation(reading, 2, {}).empty());
  reading.guilty = {3};
  reading.why = "shows no sign of life";
  CHECK(accusation(reading, 2, {{0, "n1"}, {1, "n2"}}) == "rank 3 on n2: shows no sign of life");
  reading.waits = {{"tp", "all_reduce", 5, {0, 1}, {2}}, {"dp", "all_reduce", 41, {1}, {3}}};
  CHECK(accusation(reading, 2, {{0, "n1"}, {1, "n2"}}) ==
      "rank 3 on n2: shows no sign of life (1 waits in dp all_reduce 41, which it never "
      "entered)");
  reading.guilty = {0, 1, 2};
  reading.waits.clear();
  CHECK(accusation(reading, 2, {{0, "n1"}, {1, "n2"}}) ==
      "ranks 0, 1, 2 on n1, n2: shows no sign of life");
  CHECK(accusation(reading, 2, {}) == "ranks 0, 1, 2: shows no sign of life");
}
