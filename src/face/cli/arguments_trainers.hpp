// SPDX-License-Identifier: Apache-2.0
// The options of the commands about other people's trainers.
#pragma once

#include "cli/options.hpp"

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace shardsweep {

inline constexpr auto plan_order_help =
    "Print each cell's launches in order (predicted speed, chance to fit, why), "
    "and each point left out with its rule.";
inline constexpr auto render_help = "Print the job script, or what a point's trainer is given.";
inline constexpr auto names_help = "Print the words of trainers for axes, or names of sweeps.";
inline constexpr auto names_kind_help =
    "axes, sweeps, presets, models or clusters. Default: axes.";
inline const std::vector<std::string> name_kinds{"axes", "sweeps", "presets", "models",
                                                 "clusters"};
inline constexpr auto export_format_help = "Form without a file: csv, json or markdown.";
inline const std::vector<std::string> export_forms{"csv", "json", "markdown"};
inline constexpr auto read_log_help = "Read speed and memory out of a trainer's log.";

/// Both return the command.
CLI::App* with_read_log(CLI::App* sub, Options& options);
/// --emit and --from-args, of `plan` and `best`.
CLI::App* with_emit(CLI::App* sub, Options& options);
/// Points of a plan, by an option or argument of this name.
void with_point(CLI::App* sub, Options& options, const char* name, const std::string& begin);

}  // namespace shardsweep
