// SPDX-License-Identifier: Apache-2.0
#include "attempt/watch.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

AttemptSpec some_spec() {
  AttemptSpec spec;
  spec.limits.start_limit_s = 10;
  spec.limits.rendezvous_limit_s = 20;
  spec.limits.init_limit_s = 30;
  spec.limits.first_step_limit_s = 40;
  spec.limits.step_limit_s = 5;
  spec.limits.teardown_limit_s = 6;
  spec.limits.attempt_limit_s = 1000;
  spec.limits.hang_factor = 0;
  return spec;
}

Record phase(const std::string& name) {
  Record record;
  record.type = RecordType::phase;
  record.phase = name;
  return record;
}

Record train_step(std::int64_t step) {
  Record record;
  record.type = RecordType::train_step;
  record.step = step;
  return record;
}

Record of_type(RecordType type) {
  Record record;
  record.type = type;
  return record;
}

}  // namespace

TEST_CASE("every phase has its own limit") {
  struct Row {
    const char* phase;
    double limit;
  };
  for (const Row row : {Row{"rendezvous", 20}, Row{"init", 30}, Row{"warmup", 40}, Row{"train", 40},
           Row{"teardown", 6}, Row{"unheard of", 30}}) {
    AttemptWatch watch(some_spec(), 100);
    watch.see(phase(row.phase), 100);
    CHECK_MESSAGE(!watch.judge(100 + row.limit), row.phase);
    const auto verdict = watch.judge(100.1 + row.limit);
    REQUIRE_MESSAGE(verdict, row.phase);
    CHECK(verdict->outcome == Outcome::hung);
  }
}

TEST_CASE("a verdict names phase and limit and the last record") {
  AttemptWatch watch(some_spec(), 0);
  CHECK(watch.judge(10.5)->cause ==
      "no progress in phase 'start' for 10.5 s (limit 10 s), last record: none");
  watch.see(of_type(RecordType::start), 3);
  CHECK(watch.judge(14)->cause ==
      "no progress in phase 'start' for 11.0 s (limit 10 s), last record: start");
  watch.see(phase("train"), 15);
  watch.see(train_step(7), 16);
  CHECK(watch.judge(22)->cause ==
      "no progress in phase 'train' for 6.0 s (limit 5 s), last record: train_step 7");
  CHECK(watch.step() == 7);
}

TEST_CASE("the first train step has a longer limit than the later ones") {
  AttemptWatch watch(some_spec(), 0);
  watch.see(phase("train"), 0);
  CHECK(!watch.judge(39));
  watch.see(train_step(1), 39);
  CHECK(!watch.judge(44));
  CHECK(watch.judge(44.1));
}

TEST_CASE("train steps that go on are never hung and end as a timeout") {
  AttemptWatch watch(some_spec(), 0);
  watch.see(phase("train"), 0);
  for (int step = 1; step < 1000; ++step) {
    watch.see(train_step(step), step);
    REQUIRE(!watch.judge(step + 0.5));
  }
  watch.see(train_step(1000), 1000);
  CHECK(watch.judge(1001)->outcome == Outcome::timeout);
}

TEST_CASE("a phase said again and errors and unknown records are no progress") {
  AttemptWatch watch(some_spec(), 0);
  watch.see(phase("init"), 0);
  watch.see(phase("init"), 20);
  watch.see(of_type(RecordType::error), 25);
  watch.see(of_type(RecordType::other), 29);
  CHECK(watch.judge(31));
}

TEST_CASE("after the result what is left has the teardown limit in all") {
  AttemptWatch watch(some_spec(), 0);
  watch.see(phase("train"), 0);
  watch.see(of_type(RecordType::result), 10);
  watch.see(phase("train"), 14);
  watch.begin_teardown(15);
  CHECK(!watch.judge(16));
  CHECK(watch.judge(16.1)->outcome == Outcome::hung);
}

TEST_CASE("a gap in our own loop is held against nobody") {
  AttemptWatch watch(some_spec(), 0);
  watch.see(phase("train"), 0);
  watch.see(train_step(1), 1);
  watch.stretch(100);
  CHECK(!watch.judge(106));
  CHECK(watch.judge(106.1));
  watch.see(train_step(2), 107);
  CHECK(!watch.judge(112));
  CHECK(watch.judge(112.1));
  CHECK(watch.judge(113)->outcome == Outcome::hung);
}

namespace {

/// In its train steps, each of 0.5 s but a first one of 3 s, with recorders.
AttemptWatch training(const AttemptSpec& spec) {
  AttemptWatch watch(spec, 0);
  watch.see(phase("warmup"), 0);
  watch.see_movement(true, 1);
  watch.see(train_step(1), 3);
  watch.see(train_step(2), 3.5);
  watch.see(train_step(3), 4);
  return watch;
}

AttemptSpec with_recorders() {
  AttemptSpec spec = some_spec();
  spec.limits.step_limit_s = 120;
  spec.limits.hang_floor_s = 0.8;
  spec.limits.hang_factor = 2;
  return spec;
}

}  // namespace

TEST_CASE("with recorders a hang is twice the longest step without movement, but the first") {
  const AttemptWatch watch = training(with_recorders());
  CHECK(watch.limit_s() == doctest::Approx(1));
  CHECK(!watch.judge(4.9));
  CHECK(watch.judge(5.1)->outcome == Outcome::hung);
}

TEST_CASE("no limit is learnt below the floor, nor one above from a single slow step") {
  AttemptSpec spec = with_recorders();
  spec.limits.hang_floor_s = 5;
  CHECK(training(spec).limit_s() == 5);
  AttemptWatch first(with_recorders(), 0);
  first.see(phase("train"), 0);
  first.see_movement(true, 1);
  first.see(train_step(1), 10);
  CHECK(first.limit_s() == 20);
  first.see(train_step(2), 11);
  CHECK(first.limit_s() == 2);
}

TEST_CASE("operations that go on are progress, however long a step takes") {
  AttemptWatch watch = training(with_recorders());
  for (double at = 4; at < 100; at += 0.9) {
    watch.see_movement(true, at);
    REQUIRE(!watch.judge(at + 0.9));
  }
  CHECK(watch.still_s(101) < 2);
}

TEST_CASE("while not every rank keeps a recorder stillness means nothing") {
  AttemptWatch watch = training(with_recorders());
  watch.see_movement(false, 4);
  CHECK(watch.limit_s() == 120);
  AttemptSpec off = with_recorders();
  off.limits.hang_factor = 0;
  CHECK(training(off).limit_s() == 120);
}

TEST_CASE("steps that take longer than the step limit lengthen it") {
  AttemptSpec spec = some_spec();
  spec.limits.hang_factor = 2;
  AttemptWatch watch(spec, 0);
  watch.see(phase("train"), 0);
  watch.see(train_step(1), 10);
  CHECK(watch.limit_s() == 5);
  watch.see(train_step(2), 14);
  CHECK(watch.limit_s() == 8);
}

TEST_CASE("an attempt that advances for far longer than predicted is slow and not hung") {
  AttemptSpec spec = some_spec();
  spec.predicted_s = 10;
  spec.slow_limit_s = 200;
  AttemptWatch watch(spec, 100);
  watch.see(phase("train"), 100);
  for (int step = 1; step <= 40; ++step) {
    REQUIRE(!watch.judge(100 + 5 * step));
    watch.see(train_step(step), 100 + 5 * step);
  }
  const auto verdict = watch.judge(300.5);
  REQUIRE(verdict);
  CHECK(verdict->outcome == Outcome::timeout);
  CHECK(verdict->cause ==
      "slow: still running after 200.5 s (predicted 10 s, limit 200 s), but advancing; last "
      "record: train_step 40, last progress 0.5 s ago");
  SUBCASE("unless it stands still") {
    CHECK(watch.judge(310)->outcome == Outcome::hung);
  }
}

TEST_CASE("how long each phase stood still is remembered without our own gaps") {
  AttemptWatch watch(some_spec(), 100);
  watch.see(of_type(RecordType::start), 101);
  watch.see(phase("rendezvous"), 103);
  watch.stretch(10);
  watch.see(phase("init"), 117);
  watch.see_movement(true, 120);
  watch.see_movement(true, 125);
  watch.see(phase("warmup"), 126);
  watch.see(train_step(1), 136);
  watch.see(train_step(2), 137);
  watch.see(of_type(RecordType::result), 139);
  CHECK(watch.longest_still_s() == StillTimes{2, 4, 5, 10, 2, 0});
}
