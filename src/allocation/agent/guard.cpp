// SPDX-License-Identifier: Apache-2.0
#include "agent/guard.hpp"

#include "agent/reap.hpp"
#include "agent/signals.hpp"

#include <shardsweep/fail_point.hpp>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace shardsweep::agent {
namespace {

constexpr double guard_kill_s = 60;  // longer than that is state D: nothing here can help
// slurmstepd was seen to be some milliseconds behind, on a machine with too few cores.
constexpr int own_kill_ms = 2000;

/// Reaps whatever comes, until the agent has ended.
void wait_for(pid_t agent, GuardMachine& guard) {
  int status = 0;
  const pid_t reaped = ::waitpid(-1, &status, 0);
  if (reaped < 0 && errno == EINTR) return;
  if (reaped == agent) {
    guard.see_agent_end(
        WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  } else if (reaped < 0) {
    guard.see_nothing_left();
  } else {
    return;
  }
  // The channel stays open here: its end tells the lead that this node is clean.
  fail_point("guard.agent_ended");
}

}  // namespace

int run_guard(
    const Clock& clock, const std::function<int()>& node_agent, const KillDuties& killed) {
  become_subreaper();
  block_signals();
  fail_point("guard.start");
  const pid_t agent = ::fork();
  if (agent == 0) ::_exit(node_agent());
  if (agent < 0) {
    std::perror("guard: cannot fork");  // the lead finds out no more than that nobody came
    return exit_guard_failed;
  }
  GuardMachine guard;
  while (true) {
    switch (guard.next()) {
      case GuardMachine::Order::wait:
        wait_for(agent, guard);
        break;
      case GuardMachine::Order::say_killed:
        killed.say(guard.signal());
        guard.has_said();
        break;
      case GuardMachine::Order::end_children:
        fail_point("guard.said");
        guard.has_ended(kill_all_children(clock, guard_kill_s));
        if (guard.signal() != 0 && killed.clean_up) killed.clean_up();
        fail_point("guard.clean");
        break;
      case GuardMachine::Order::await_own_kill:
        (void)::poll(nullptr, 0, own_kill_ms);
        guard.has_outlived_its_agent();
        break;
      case GuardMachine::Order::leave:
        return guard.exit_code();
    }
  }
}

}  // namespace shardsweep::agent
