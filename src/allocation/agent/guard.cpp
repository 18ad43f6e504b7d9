// SPDX-License-Identifier: Apache-2.0
#include "agent/guard.hpp"

#include "agent/reap.hpp"
#include "agent/signals.hpp"

#include <shardsweep/fail_point.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace shardsweep::agent {
namespace {

constexpr double guard_kill_s = 60;  // longer than that is state D: nothing here can help

}  // namespace

int run_guard(const Clock& clock, const std::function<int()>& node_agent,
              const std::function<void(int signal)>& killed) {
  become_subreaper();
  block_signals();
  fail_point("guard.start");
  const pid_t agent = ::fork();
  if (agent == 0) ::_exit(node_agent());
  if (agent < 0) {
    std::perror("guard: cannot fork");  // the lead finds out no more than that nobody came
    return 1;
  }
  // The channel stays open here: its end tells the lead that this node is clean.
  int status = 0;
  while (true) {
    int ended = 0;
    const pid_t reaped = ::waitpid(-1, &ended, 0);
    if (reaped < 0 && errno == EINTR) continue;
    if (reaped == agent) status = ended;
    if (reaped == agent || reaped < 0) break;
  }
  fail_point("guard.agent_ended");
  if (WIFSIGNALED(status)) killed(WTERMSIG(status));
  fail_point("guard.said");
  const bool clean = kill_all_children(clock, guard_kill_s);
  fail_point("guard.clean");
  if (!clean) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : exit_agent_killed;
}

}  // namespace shardsweep::agent
