// SPDX-License-Identifier: Apache-2.0
// The body of `shardsweep-agent lead`: claim first, then start the node agents.
#pragma once

#include <shardsweep/clock.hpp>

#include <string>

namespace shardsweep::agent {

inline constexpr int exit_not_claimed = 75;  // EX_TEMPFAIL: somebody else runs this allocation

/// The exit code.
[[nodiscard]] int run_lead(const std::string& dir, const Clock& clock);

}  // namespace shardsweep::agent
