// SPDX-License-Identifier: Apache-2.0
// `shardsweep-agent rank`: a task of a Slurm step turns into a rank, where an attempt is one
// srun and there are no node agents to start it.
#pragma once

#include "agent/environment.hpp"

#include <string>

namespace shardsweep::agent {

/// Only returns, with an exit code, where the rank can't be started.
[[nodiscard]] int run_step_rank(const std::string& dir, const Environment& own);

}  // namespace shardsweep::agent
