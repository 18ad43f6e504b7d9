// SPDX-License-Identifier: Apache-2.0
#include "node/cpu_use.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

using namespace shardsweep;

namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void burn(double seconds) {
  timespec used{};
  do {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9 < seconds);
}

}  // namespace

TEST_CASE("busy is what neither idled, nor waited for a disk, nor was stolen") {
  CHECK(busy_seconds_in("cpu  100 20 30 4000 500 6 7 800 0 0\ncpu0 1 1\n", 100) ==
      doctest::Approx(1.63));
  for (const char* text : {"", "cpu0 1 2 3 4 5 6 7\n", "cpu  1 2 3\n", "cpu  1 2 x 4 5 6 7\n"})
    CHECK_MESSAGE(!busy_seconds_in(text, 100), text);
  CHECK(!busy_seconds_in("cpu  1 2 3 4 5 6 7", 0));
}

TEST_CASE("others have what is neither ours nor idle") {
  const CpuUse before{10, 100, 40, 4};
  CHECK(others_share(before, {20, 130, 60, 4}) == doctest::Approx(10.0 / 40));
  CHECK(others_share(before, {20, 120, 60, 4}) == 0);
  CHECK(others_share(before, {20, 119, 60, 4}) == 0);  // the two are not read at one moment
  CHECK(others_share(before, before) == 0);
}

TEST_CASE("a child's time is ours once it was waited for") {
  constexpr double used_s = 0.2;
  const auto before = cpu_use(now_s());
  REQUIRE(before);
  const pid_t child = ::fork();
  if (child == 0) {
    burn(used_s);
    ::_exit(0);
  }
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  const auto after = cpu_use(now_s());
  REQUIRE(after);
  CHECK(after->own_s - before->own_s >= used_s);
  CHECK(after->busy_s > before->busy_s);
}
