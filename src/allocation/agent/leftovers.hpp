// SPDX-License-Identifier: Apache-2.0
// The body of `shardsweep-agent sweep-leftovers`: after lead, guard and node agent were killed
// at once, what carries the allocation's marker on this machine is ended.
#pragma once

#include <shardsweep/clock.hpp>

#include <string>

namespace shardsweep::agent {

/// Prints a JSON line per process. 0 when a last look found none, 1 otherwise.
[[nodiscard]] int sweep_leftovers(const std::string& token, const Clock& clock);

}  // namespace shardsweep::agent
