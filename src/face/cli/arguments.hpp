// SPDX-License-Identifier: Apache-2.0
// The command line's grammar and its help texts.
#pragma once

#include "cli/command_line.hpp"
#include "cli/options.hpp"

#include <optional>

namespace shardsweep {

/// Parses, or prints help, version or what is wrong. Then `exit_code` is set and nothing else.
struct Parsed {
  Options options;
  std::optional<int> exit_code;
};
[[nodiscard]] Parsed parse_arguments(int argc, char** argv);

/// The grammar that parse_arguments() understands.
[[nodiscard]] CommandLine describe_command_line();

}  // namespace shardsweep
