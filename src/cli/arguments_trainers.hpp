// SPDX-License-Identifier: Apache-2.0
// The options of the commands about other people's trainers.
#pragma once

#include "cli/options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace shardsweep {

inline constexpr auto read_log_help = "Read speed and memory out of a trainer's log.";
inline constexpr auto emit_help = "Print layouts as flags or configuration of a trainer.";

/// Both return the command.
CLI::App* with_read_log(CLI::App* sub, Options& options);
CLI::App* with_emit(CLI::App* sub, Options& options);

}  // namespace shardsweep
