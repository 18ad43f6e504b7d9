// SPDX-License-Identifier: Apache-2.0
// The options of the commands that answer without a run.
#pragma once

#include "cli/options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace shardsweep {

inline constexpr auto suggest_help = "Predict the fastest layouts: memory, batch, throughput.";
inline constexpr auto extrapolate_help = "Guess speeds on node counts that were not run.";

/// Both return the command.
CLI::App* with_suggest(CLI::App* sub, Options& options);
CLI::App* with_extrapolate(CLI::App* sub, Options& options);

}  // namespace shardsweep
