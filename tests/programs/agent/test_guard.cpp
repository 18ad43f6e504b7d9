// SPDX-License-Identifier: Apache-2.0
// The guard alone, above a node agent of a few lines: what is left when that is killed.
#include "agent/guard.hpp"

#include <shardsweep/clock.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ostream>

using namespace shardsweep;

TEST_CASE("if a node agent is killed its guard ends the ranks before it ends itself") {
  std::array<int, 2> held{};  // its end tells that no process is left that has inherited it
  REQUIRE(::pipe2(held.data(), O_CLOEXEC) == 0);
  const pid_t guard = ::fork();
  REQUIRE(guard >= 0);
  if (guard == 0) {
    const auto node_agent = [] {
      // A rank in a session of its own: no signal to a group reaches it.
      if (::fork() == 0) {
        ::setsid();
        while (true)
          ::pause();
      }
      return ::raise(SIGKILL);
    };
    int by = 0;
    const int status =
        agent::run_guard(SystemClock(), node_agent, {[&](int signal) { by = signal; }});
    ::_exit(by == SIGKILL ? status : 1);
  }
  ::close(held[1]);
  int status = 0;
  REQUIRE(::waitpid(guard, &status, 0) == guard);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == exit_agent_killed);
  pollfd end{held[0], POLLIN, 0};
  CHECK(::poll(&end, 1, 0) == 1);
  CHECK((end.revents & POLLHUP) != 0);
  ::close(held[0]);
}
