// SPDX-License-Identifier: Apache-2.0
// A child that is at fail points: this process is at none itself, or its children would begin
// with what it has read.
#pragma once

#include "tools/lib/fail_points.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace shardsweep::test {

/// Runs `body` in a child with these points; its pid. What it returns is its exit code.
inline pid_t start_at(
    const FailPoints& points, const std::string& armed, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  points.arm(armed);
  ::_exit(body());
}

/// Its exit code; -signal of one that was killed.
inline int exit_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

inline int run_at(
    const FailPoints& points, const std::string& armed, const std::function<int()>& body) {
  return exit_of(start_at(points, armed, body));
}

}  // namespace shardsweep::test
