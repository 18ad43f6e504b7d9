// SPDX-License-Identifier: Apache-2.0
// How a process of a trainer differs from a rank of a runner: PyTorch's variables, words that
// only a rank knows, its own folder, one process on each node. Pure.
#pragma once

#include "agent/environment.hpp"
#include "agent/spawn.hpp"

#include <shardsweep/protocol.hpp>

#include <map>
#include <string>
#include <vector>

namespace shardsweep::agent {

/// Tells the tasks of a Slurm step where they meet.
inline constexpr const char* meet_variable = "SHARDSWEEP_MEET";

/// Processes that a node starts for `ranks` of its ranks.
[[nodiscard]] int processes_of(const AttemptSpec& spec, int ranks);

/// Variables that tell a trainer that its rank is alone in a pretended world; mostly none.
[[nodiscard]] std::map<std::string, std::string> fake_variables(const AttemptSpec& spec);

/// MASTER_ADDR and MASTER_PORT; `meet`: host:port of rank 0.
void set_meeting_place(Environment& environment, const std::string& meet);

/// Completes a rank's process; nothing is changed if the attempt has no trainer.
/// `meet`: host:port of rank 0.
void complete_trainer(
    RankProcess& process, const AttemptSpec& spec, const RankPlace& place, const std::string& meet);

}  // namespace shardsweep::agent
