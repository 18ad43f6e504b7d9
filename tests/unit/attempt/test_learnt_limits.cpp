// SPDX-License-Identifier: Apache-2.0
#include "attempt/watch.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

AttemptSpec some_spec(double predicted_s = 10) {
  AttemptSpec spec;
  spec.group = "lane";
  spec.limits.start_limit_s = 60;
  spec.limits.rendezvous_limit_s = 60;
  spec.limits.init_limit_s = 300;
  spec.limits.first_step_limit_s = 300;
  spec.limits.step_limit_s = 120;
  spec.limits.teardown_limit_s = 60;
  spec.limits.learn_factor = 5;
  spec.limits.learn_floor_s = 20;
  spec.predicted_s = predicted_s;
  return spec;
}

/// start, rendezvous, init, first_step, step, teardown.
constexpr StillTimes some_still{1, 2, 10, 100, 3, 4};

}  // namespace

TEST_CASE("three measured attempts shorten the limits of their group down to a floor") {
  LearntLimits learnt;
  learnt.learn(some_spec(), some_still);
  learnt.learn(some_spec(), {0.5, 1, 11, 1, 1, 1});
  CHECK(learnt.applied_to(some_spec()) == some_spec());
  learnt.learn(some_spec(), some_still);
  AttemptSpec shorter = some_spec();
  shorter.limits.start_limit_s = 20;
  shorter.limits.rendezvous_limit_s = 20;
  shorter.limits.init_limit_s = 55;
  // 5 x 100 s would be longer than its own.
  CHECK(learnt.applied_to(some_spec()) == shorter);

  SUBCASE("a larger prediction gets more") {
    shorter = learnt.applied_to(some_spec(20));
    CHECK(shorter.limits.init_limit_s == 110);
    CHECK(shorter.limits.start_limit_s == 20);
  }
  SUBCASE("a smaller prediction gets no less") {
    CHECK(learnt.applied_to(some_spec(1)).limits.init_limit_s == 55);
  }
  SUBCASE("a limit below the floor stays as it is") {
    AttemptSpec strict = some_spec();
    strict.limits.init_limit_s = 3;
    CHECK(learnt.applied_to(strict).limits.init_limit_s == 3);
  }
  SUBCASE("other groups keep theirs") {
    AttemptSpec other = some_spec();
    other.group = "another";
    CHECK(learnt.applied_to(other) == other);
  }
  SUBCASE("it can be switched off") {
    AttemptSpec off = some_spec();
    off.limits.learn_factor = 0;
    CHECK(learnt.applied_to(off) == off);
  }
}

TEST_CASE("who has no group teaches nobody") {
  LearntLimits learnt;
  AttemptSpec alone = some_spec();
  alone.group.clear();
  for (int i = 0; i < 5; ++i)
    learnt.learn(alone, some_still);
  CHECK(learnt.applied_to(alone) == alone);
}
