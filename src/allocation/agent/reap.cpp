// SPDX-License-Identifier: Apache-2.0
#include "agent/reap.hpp"

#include "agent/log.hpp"
#include "machine/processes.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace shardsweep::agent {

void become_subreaper() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

bool kill_children_once() {
  // Kill children only: an unreaped child keeps its pid, so none of these can be a stranger.
  // Grandchildren become children when their parents go.
  for (const pid_t pid : children_of(::getpid()))
    ::kill(pid, SIGKILL);
  while (true) {
    const pid_t reaped = ::waitpid(-1, nullptr, WNOHANG);
    if (reaped < 0 && errno == EINTR) continue;
    if (reaped < 0) return errno == ECHILD;
    if (reaped == 0) return false;
  }
}

bool kill_all_children(const Clock& clock, double limit_s) {
  const double deadline = seconds_of(clock) + limit_s;
  while (!kill_children_once()) {
    if (seconds_of(clock) > deadline) return false;
    (void)::poll(nullptr, 0, 1);
  }
  return true;
}

std::optional<int> exit_status(pid_t child, const Clock& clock, double limit_s) {
  const double deadline = seconds_of(clock) + limit_s;
  while (true) {
    siginfo_t about{};
    const int got = ::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOHANG | WNOWAIT);
    if (got < 0 && errno != EINTR) return std::nullopt;
    if (got == 0 && about.si_pid == child)
      return about.si_code == CLD_EXITED ? about.si_status << 8 : about.si_status;
    if (seconds_of(clock) > deadline) return std::nullopt;
    (void)::poll(nullptr, 0, 1);
  }
}

double seconds_of(const Clock& clock) {
  return std::chrono::duration<double>(clock.steady().time_since_epoch()).count();
}

namespace {

constexpr double limit_s = 20;  // limit against processes that fork faster than we look
constexpr int leftover_wait_ms = 2000;

}  // namespace

int sweep_leftovers(const std::string& token, const Clock& clock) {
  const std::string prefix = token + "/";
  const double deadline_s = seconds_of(clock) + limit_s;
  while (true) {
    const auto marked =
        find_marked([&](std::string_view value) { return value.starts_with(prefix); });
    if (marked.found.empty()) {
      if (marked.unreadable > 0)
        Log(clock, "sweep-leftovers")
            .line(fmt::format(
                "{} processes of other users could not be inspected", marked.unreadable));
      return 0;
    }
    for (const auto& process : marked.found) {
      const bool ended = end_process(process, leftover_wait_ms);
      std::puts(encode(process, ended).c_str());
    }
    std::fflush(stdout);
    if (seconds_of(clock) > deadline_s) return 1;
  }
}

}  // namespace shardsweep::agent
