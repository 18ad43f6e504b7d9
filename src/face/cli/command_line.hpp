// SPDX-License-Identifier: Apache-2.0
// The command line described as plain values: help, man page and shell completion are written
// from it. arguments.cpp fills it in from the one grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct OptionHelp {
  std::string name;   ///< "--where"; of a positional "NAME"
  std::string brief;  ///< "-h"; often empty
  std::string value;  ///< "EXPR"; empty: a flag
  std::string help;
  std::string default_text;          ///< empty: none that is worth a word
  std::vector<std::string> choices;  ///< the words that it takes, where they are few
  bool positional = false;
  bool required = false;
  bool repeatable = false;
};

struct CommandHelp {
  std::string name;
  std::string group;
  std::string help;
  std::vector<OptionHelp> options;  ///< positionals first
};

struct CommandLine {
  std::string program;
  std::string version;
  std::string about;
  std::vector<std::string> groups;  ///< in the order in which they are shown
  std::vector<CommandHelp> commands;
  std::vector<OptionHelp> options;  ///< of the program itself
};

/// nullptr where there is no such command.
[[nodiscard]] const CommandHelp* find_command_help(const CommandLine& line,
                                                   std::string_view name);

/// What `--help` prints: of the program where `command` is empty, else of that command.
[[nodiscard]] std::string help_text(const CommandLine& line, std::string_view command,
                                    std::size_t width);
/// Prints it as wide as the terminal. Returns the exit code: there may be no such command.
[[nodiscard]] int print_help(const CommandLine& line, const std::string& command);
/// shardsweep.1, in roff.
[[nodiscard]] std::string man_page(const CommandLine& line);

[[nodiscard]] std::string bash_completion(const CommandLine& line);
[[nodiscard]] std::string zsh_completion(const CommandLine& line);
[[nodiscard]] std::string fish_completion(const CommandLine& line);

}  // namespace shardsweep
