// SPDX-License-Identifier: Apache-2.0
// The guard: parent of the node agent and nothing else. When the node agent is gone, even by
// kill -9, whatever it watched comes to the guard, is ended and reaped.
#pragma once

#include "attempt/guard_machine.hpp"

#include <shardsweep/clock.hpp>

#include <functional>

namespace shardsweep::agent {

/// Forks; the child runs `node_agent` and its answer is the exit code that is passed on. If a
/// signal has ended it, `killed` is called with that before anything else is ended.
int run_guard(const Clock& clock, const std::function<int()>& node_agent,
    const std::function<void(int signal)>& killed);

}  // namespace shardsweep::agent
