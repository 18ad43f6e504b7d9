// SPDX-License-Identifier: Apache-2.0
// Hangs of real training: found, blamed on the rank that made them, with evidence, and at no
// cost for the attempt that comes next. How soon they are found, and that what is only slow is
// not called hung, is decided in attempt/watch and shown with real seconds by tests/soak.
#include "programs/agent/hang_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using test::Allocation;
using test::HangCase;

TEST_CASE("a rank that hangs or stands still is named, wherever it stands") {
  // Seeded: SHARDSWEEP_TEST_REPEATS runs as many of them as one likes.
  for (int seed = 1; seed <= test::repeats(6); ++seed) {
    const HangCase hang = test::hang_case(static_cast<unsigned>(seed));
    CAPTURE(seed);
    CAPTURE(hang.fault);
    Allocation allocation;
    allocation.fail_at("node.launched_said:wait-for-file");
    allocation.every.limits.hang_floor_s = allocation.every.limits.first_step_limit_s =
        test::at_once_s;
    const auto hung = allocation.assign_training(hang.flags, hang.world);
    allocation.every.limits.hang_floor_s = allocation.every.limits.first_step_limit_s =
        test::no_limit_s;
    const auto next = allocation.assign_training(test::healthy(hang), hang.world);
    allocation.start();
    test::wait_until_all_stand(hang, hung, allocation);
    const Ended ended = allocation.wait_ended(hung.attempt);
    test::check_verdict(hang, ended, test::at_once_s);
    CHECK_MESSAGE(
        allocation.wait_ended(next.attempt).ending.outcome == Outcome::completed, allocation.log());
    CHECK(allocation.marked().empty());
  }
}

TEST_CASE("what is kept of a hang tells who waits where") {
  HangCase hang = test::hang_case(1);
  hang.fault = "hang@train+2:1";
  hang.flags.back() = hang.fault;
  Allocation allocation;
  allocation.fail_at("node.launched_said:wait-for-file");
  allocation.every.limits.hang_floor_s = allocation.every.limits.first_step_limit_s =
      test::at_once_s;
  const auto hung = allocation.assign_training(hang.flags, hang.world);
  allocation.start();
  test::wait_until_all_stand(hang, hung, allocation);
  REQUIRE(allocation.wait_ended(hung.attempt).ending.outcome == Outcome::hung);
  const auto files = test::unpacked(hung);
  const std::string local = files.at("evidence/local.json");
  CHECK(local.find("\"why\": \"no progress in phase 'train'") != std::string::npos);
  CHECK(local.find("\"rank\": 0") != std::string::npos);
  CHECK(local.find("\"last_line\"") != std::string::npos);
  CHECK(local.find("\"waits_in\"") != std::string::npos);
  CHECK(files.at("evidence/recorder.json").find("\"guilty\":[1]") != std::string::npos);
  CHECK(files.contains("evidence/recorder/rank.0"));
  CHECK(files.at("rank.1.out").find("backtrace (SIGQUIT)") != std::string::npos);
}
