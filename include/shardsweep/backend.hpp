// SPDX-License-Identifier: Apache-2.0
// Where a sweep runs, and how the ranks of its attempts are started. Both are stored words.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

/// Place where a sweep and its allocations run. Imported sweeps never run; outside sweeps hand out
/// their points, and run out of this program's sight.
enum class Backend : std::uint8_t { none, local, slurm, imported, outside };
SHARDSWEEP_WORDS(Backend, "", "local", "slurm", "imported", "outside");

/// agents: by node agents under one srun. srun: by an srun per attempt, for trainers that need
/// PMI or MPI. local: by one node agent over a pipe, on this machine.
enum class LaunchMode : std::uint8_t { agents, srun, local };
SHARDSWEEP_WORDS(LaunchMode, "agents", "srun", "local");

}  // namespace shardsweep
