// SPDX-License-Identifier: Apache-2.0
// What a command is. A file of commands/ writes it down: its options, its help with examples,
// and what it does. One line of commands/table.cpp registers it. The parser, help, shell
// completion and the manual page are made from that table, so nothing else lists the commands.
#pragma once

#include "show/exit_code.hpp"

#include <shardsweep/result.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

class Grammar;
struct Session;

/// Heading under which help lists a command.
enum class Heading : std::uint8_t { daily, results, other };
inline constexpr std::array<std::string_view, 3> heading_words{
    "Daily commands", "Results", "Other commands"};

struct Command {
  std::string_view name;
  Heading heading = Heading::other;
  std::string_view help;  ///< a sentence of at most 62 characters
  /// One command line per line, one at least, of at most 58 characters. unit_views holds each
  /// to the grammar.
  std::string_view examples;
  void (*declare)(Grammar&) = nullptr;  ///< nullptr: it has no options of its own
  Result<ExitCode> (*run)(const Session&) = nullptr;
  bool database = true;     ///< takes --db
  bool last_sweep = false;  ///< names default to the sweep that was submitted last
  bool own_lines = false;   ///< writes to the terminal by itself while it works
};

}  // namespace shardsweep
