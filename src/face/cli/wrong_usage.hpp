// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line, by the names that the help shows.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
class ParseError;
}  // namespace CLI

namespace shardsweep {

/// Two lines: the mistake, and which help lists what would be right.
[[nodiscard]] std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace shardsweep
