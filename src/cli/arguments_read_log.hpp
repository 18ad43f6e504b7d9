// SPDX-License-Identifier: Apache-2.0
// The options of read-log.
#pragma once

#include "cli/options.hpp"

namespace CLI {
class App;
}

namespace shardsweep {

inline constexpr auto read_log_help = "Read speed and memory out of a trainer's log.";

/// Returns the command.
CLI::App* with_read_log(CLI::App* sub, Options& options);

}  // namespace shardsweep
