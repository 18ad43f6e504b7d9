// SPDX-License-Identifier: Apache-2.0
// What differs in the ranks of a side run: their tool, and where its files go. Measured runs
// come through here unchanged.
#pragma once

#include "agent/spawn.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <string>
#include <vector>

namespace shardsweep::agent {

/// Adds words to a command: at its end, or before a last word like activation:full. The program
/// takes none of its other options behind such a word.
void add_words(std::vector<std::string>& argv, const std::vector<std::string>& words);

/// The command of a rank with its tool: a profiler in front of rank 0's, or the words by which
/// the trainer writes PyTorch's memory snapshot behind each rank's.
[[nodiscard]] std::vector<std::string> side_command(
    std::vector<std::string> argv, const AttemptSpec& spec, const AttemptPaths& paths, int rank);

/// Adds the tool to a rank that is to start; makes the folder for the tool's files.
[[nodiscard]] Result<void> equip_side_run(
    RankProcess& process, const AttemptSpec& spec, const AttemptPaths& paths, int rank);

/// Snapshots that a trainer has left in the folder in which it ran go to the tool's files.
/// Several node agents may do this at once. Ones that can't be moved stay where they are.
void collect_snapshots(const AttemptSpec& spec, const AttemptPaths& paths);

}  // namespace shardsweep::agent
