// SPDX-License-Identifier: Apache-2.0
// The options of the commands that find out about a cluster.
#pragma once

#include "cli/options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace shardsweep {

inline constexpr auto init_help = "Ask Slurm and write a commented site file.";
inline constexpr auto selftest_help = "Run trials of known outcome in one job, and judge them.";

/// Both return the command.
CLI::App* with_init(CLI::App* sub, Options& options);
CLI::App* with_selftest(CLI::App* sub, Options& options);

}  // namespace shardsweep
