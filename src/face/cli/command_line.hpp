// SPDX-License-Identifier: Apache-2.0
// The command line that a table of commands makes: parsed, and described as plain values, from
// which help, manual page and shell completion are written.
#pragma once

#include "cli/command.hpp"
#include "cli/options.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Parses, or prints help, version or what is wrong. Then `exit_code` is set and nothing else.
struct ParsedArguments {
  Options options;
  std::optional<int> exit_code;
};
[[nodiscard]] ParsedArguments parse_arguments(std::span<const Command* const> commands, int argc,
    char** argv, std::string_view program = "shardsweep");
/// Runs a program with such a table: parses, runs the command and reports its fault. Returns the
/// exit code.
[[nodiscard]] int run_program(std::span<const Command* const> commands, int argc, char** argv,
    std::string_view program = "shardsweep");
/// nullptr if there is no such command.
[[nodiscard]] const Command* find_command(
    std::span<const Command* const> commands, std::string_view name);

struct OptionHelp {
  std::string name;   ///< "--where"; of a positional "NAME"
  std::string brief;  ///< "-h"; often empty
  std::string value;  ///< "EXPR"; empty: a flag
  std::string help;
  std::string default_text;          ///< empty: none that is worth a word
  std::vector<std::string> choices;  ///< the words that it takes, if they are few
  bool positional = false;
  bool required = false;
  bool repeatable = false;
};

struct CommandHelp {
  std::string name;
  Heading heading = Heading::other;
  std::string help;
  std::vector<std::string> examples;
  std::vector<OptionHelp> options;  ///< positionals first
};

struct CommandLine {
  std::string program;
  std::string version;
  std::string about;
  std::vector<CommandHelp> commands;  ///< commands in the order of the table
  std::vector<OptionHelp> options;    ///< options of the program itself
};
[[nodiscard]] CommandLine describe(
    std::span<const Command* const> commands, std::string_view program = "shardsweep");

/// Text of a command's `--help`; if `command` is empty, all commands of the program.
[[nodiscard]] std::string help_text(
    const CommandLine& line, std::string_view command, std::size_t width);
/// The usual commands, on one screen.
[[nodiscard]] std::string short_help(const CommandLine& line, std::size_t width);
/// Reference of a topic, or of a section or key of the sweep file, as wide as the terminal; empty:
/// there is none.
[[nodiscard]] std::string topic_text(std::string_view topic);
/// Prints help as wide as the terminal about a command, a section or a key; without a name the
/// short one, or `all` of it. Returns the exit code: there may be no such name.
[[nodiscard]] int print_help(const CommandLine& line, const std::string& command, bool all);
/// shardsweep.1, in roff: the texts of help, one below the other.
[[nodiscard]] std::string man_page(const CommandLine& line);

[[nodiscard]] std::string bash_completion(const CommandLine& line);
[[nodiscard]] std::string zsh_completion(const CommandLine& line);
[[nodiscard]] std::string fish_completion(const CommandLine& line);

}  // namespace shardsweep
