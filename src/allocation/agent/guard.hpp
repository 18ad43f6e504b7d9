// SPDX-License-Identifier: Apache-2.0
// The guard: parent of the node agent and nothing else. When the node agent is gone, even by
// kill -9, whatever it watched comes to the guard, is ended and reaped.
#pragma once

#include <shardsweep/clock.hpp>

#include <functional>

namespace shardsweep::agent {

/// Of a guard whose node agent a signal has ended. Not 128 + signal: srun says 137 only if the
/// guard was killed too, as `scancel` does it to the whole step.
constexpr int exit_agent_killed = 72;

/// Forks; the child runs `node_agent` and its answer is the exit code that is passed on. If a
/// signal has ended it, `killed` is called with that before anything else is ended.
int run_guard(const Clock& clock, const std::function<int()>& node_agent,
              const std::function<void(int signal)>& killed);

}  // namespace shardsweep::agent
