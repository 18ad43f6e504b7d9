// SPDX-License-Identifier: Apache-2.0
// The guard: parent of the node agent and nothing else. When the node agent is gone, even by
// kill -9, whatever it watched comes to the guard, is ended and reaped.
#pragma once

#include "attempt/guard_machine.hpp"

#include <shardsweep/clock.hpp>

#include <functional>

namespace shardsweep::agent {

/// Duties of a guard whose agent a signal has ended.
struct KillDuties {
  std::function<void(int signal)> say;  ///< called before anything else is ended
  std::function<void()> clean_up{};     ///< called once its processes are gone
};

/// Forks; the child runs `node_agent` and its answer is the exit code that is passed on.
int run_guard(const Clock& clock, const std::function<int()>& node_agent, const KillDuties& killed);

}  // namespace shardsweep::agent
