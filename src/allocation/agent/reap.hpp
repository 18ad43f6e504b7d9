// SPDX-License-Identifier: Apache-2.0
// The end of every child. The caller is a child subreaper: whatever its children leave behind
// becomes its child. The proof that nothing is left is waitpid answering ECHILD, not a scan.
#pragma once

#include <shardsweep/clock.hpp>

#include <sys/types.h>

#include <optional>
#include <string>

namespace shardsweep::agent {

/// Makes descendants that lose their parent children of this process.
void become_subreaper();

/// One round: SIGKILL to every descendant, then reaps what has ended. True at ECHILD. A process
/// that forks itself again and again is caught by going on.
[[nodiscard]] bool kill_children_once();

/// Repeats kill_children_once() until no child is left. False after `limit_s`: a process in state D
/// can't be ended.
[[nodiscard]] bool kill_all_children(const Clock& clock, double limit_s);

/// Status of a child, as waitpid reports it, within `limit_s`; empty: it runs on, or was reaped
/// before. It stays to be reaped.
[[nodiscard]] std::optional<int> exit_status(pid_t child, const Clock& clock, double limit_s);

/// Seconds of the monotonic clock.
[[nodiscard]] double seconds_of(const Clock& clock);

// The body of `shardsweep-agent sweep-leftovers`: after lead, guard and node agent were killed
// at once, what carries the allocation's marker on this machine is ended.

/// Prints a JSON line per process. 0 when a last look found none, 1 otherwise.
[[nodiscard]] int sweep_leftovers(const std::string& token, const Clock& clock);

}  // namespace shardsweep::agent
