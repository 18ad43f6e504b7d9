// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/command.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

using namespace shardsweep;

namespace {

struct Ended {
  int status = 0;
  std::string words;
};

/// What a child leaves that does this, and then says by its exit code whether an alarm is left.
Ended child_that(const std::function<void()>& works) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    works();
    ::_exit(::alarm(0) == 0 ? 0 : 1);
  }
  ::close(pipe[1]);
  Ended ended;
  std::array<char, 100> bytes{};
  for (ssize_t got = 0; (got = ::read(pipe[0], bytes.data(), bytes.size())) > 0;)
    ended.words.append(bytes.data(), static_cast<std::size_t>(got));
  ::close(pipe[0]);
  REQUIRE(::waitpid(child, &ended.status, 0) == child);
  return ended;
}

}  // namespace

TEST_CASE("a call that asks nobody ends with its process") {
  const Ended late = child_that([] {
    const Overtime overtime(std::chrono::seconds(1), "it took too long", 9);
    for (;;)
      ::pause();
  });
  REQUIRE(WIFEXITED(late.status));
  CHECK(WEXITSTATUS(late.status) == 9);
  CHECK(late.words == "it took too long\n");
}

TEST_CASE("what is done in time has no end before it") {
  const Ended in_time = child_that(
      [] { const Overtime overtime(std::chrono::seconds(1000), "it took too long", 9); });
  REQUIRE(WIFEXITED(in_time.status));
  CHECK(WEXITSTATUS(in_time.status) == 0);
  CHECK(in_time.words.empty());
}
