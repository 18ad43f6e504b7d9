// SPDX-License-Identifier: Apache-2.0
#include "attempt/assignments.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

TEST_CASE("an attempt fits when its prediction with margin and grace ends before the reserve") {
  const WallTime time{200, 1.5, 5, 60};
  CHECK(time.fits(90));  // 90 * 1.5 + 5 = 140 = 200 - 60
  CHECK(!time.fits(90.1));
  CHECK(time.fits(0.1));
}

TEST_CASE("an attempt without a prediction needs the reserve once more") {
  CHECK(WallTime{120, 1.5, 5, 60}.fits(0));
  CHECK(!WallTime{119.9, 1.5, 5, 60}.fits(0));
}

TEST_CASE("without a known end everything fits") {
  const WallTime time{std::nullopt, 1.5, 5, 60};
  CHECK(time.fits(1e9));
  CHECK(time.fits(0));
  CHECK(!time.is_up());
}

TEST_CASE("time is up when no attempt could be short enough") {
  CHECK(WallTime{60, 1.5, 5, 60}.is_up());
  CHECK(WallTime{-3, 1.5, 5, 60}.is_up());
  CHECK(!WallTime{60.5, 1.5, 5, 60}.is_up());
}

TEST_CASE("what an allocation keeps free is in its specification") {
  AllocationSpec spec;
  spec.limits.time_margin = 2;
  spec.grace_s = 7;
  spec.limits.stop_before_end_s = 30;
  const WallTime time = wall_time_of(spec, 57);
  CHECK(time.fits(10));
  CHECK(!time.fits(10.1));
}

TEST_CASE("a scheduler's answer about the end is a time or never or nothing to rely on") {
  CHECK(job_end_in("1795266200\n")->at == 1'795'266'200'000'000);
  for (const char* never : {"NONE", "Unlimited\n", " UNLIMITED", "INFINITE"}) {
    const auto answer = job_end_in(never);
    REQUIRE_MESSAGE(answer, never);
    CHECK(!answer->at);
  }
  for (const char* nothing : {"", "\n", "N/A", "Unknown",
           "slurm_load_jobs error: Unable to contact slurm controller", "2026-11-21T13:03:20", "12",
           "-1795266200", "1795266200 1795266201", "99999999999999999999"})
    CHECK_MESSAGE(!job_end_in(nothing), nothing);
}
