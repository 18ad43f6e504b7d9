// SPDX-License-Identifier: Apache-2.0
// The options of `compare`.
#pragma once

#include "cli/options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace shardsweep {

inline constexpr auto compare_help = "Compare two sweeps or versions, layout by layout.";

/// Returns the command.
CLI::App* with_compare(CLI::App* sub, Options& options);

}  // namespace shardsweep
