// SPDX-License-Identifier: Apache-2.0
// Fail points: named places at which a test makes a program die, stand still or meet a full
// disk. A test so says *where* something happens, and never when. They are compiled in, since
// what is tested is what is shipped, and do nothing unless the environment asks for one:
//
//   SHARDSWEEP_FAIL_AT=NAME[:n]:ACTION[,NAME…]     at the n-th time (1) that a process is there
//     exit            ends at once, as by _exit(70): no destructor, no handler
//     kill            SIGKILL to itself
//     stop            SIGSTOP to itself
//     enospc, eio     the next system call is taken to have failed so (fail_point_error alone)
//     break           contradicts itself: throws a BrokenInvariant
//     wait-for-file   waits until the file NAME.go is in the folder
//   SHARDSWEEP_FAIL_DIR=FOLDER    required. A process that acts makes the file NAME there
//   first,
//     with its pid. So a test knows that the point is reached, and of all processes that
//     inherit the variables, one acts, once: the next daemon or job passes.
//
// A name is that of a window: what has happened, and what has not. The table is the only list;
// a name that is not in it does not compile, and tests/tools/style/fail_points finds the test
// of each.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardsweep {

struct FailPointWindow {
  std::string_view name;
  std::string_view window;
};

inline constexpr auto fail_points = std::to_array<FailPointWindow>({
    // daemon
    {"daemon.commit", "decided, not committed"},
    {"daemon.committed", "decisions are committed, nothing acts on them yet"},
    // node agent
    {"node.launched", "the ranks of an attempt are started, the lead does not know it yet"},
});

/// The name of a fail point, checked by the compiler.
class FailPoint {
 public:
  consteval FailPoint(const char* name)
      : name_(name) {  // NOLINT: a literal is meant to convert
    bool known = false;
    for (const auto& point : fail_points)
      known = known || point.name == name_;
    if (!known) throw "no such name in fail_points";
  }
  [[nodiscard]] constexpr std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

/// Ends, breaks, stops or holds the process if the environment asks for it here.
void fail_point(FailPoint here);

/// The same, before a system call: its errno if it is to fail, else 0.
[[nodiscard]] int fail_point_error(FailPoint here);

}  // namespace shardsweep
