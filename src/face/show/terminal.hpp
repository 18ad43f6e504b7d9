// SPDX-License-Identifier: Apache-2.0
// What text is printed on: how wide it is, which characters it shows, whether it has colours.
#pragma once

#include <cstddef>
#include <optional>

namespace shardsweep {

struct Terminal {
  std::optional<std::size_t> width{};  ///< columns; none: a pipe or a file, without a limit
  bool utf8 = true;                    ///< false: ASCII alone
  bool colour = false;                 ///< 256 of them
  bool truecolour = false;             ///< 24 bits of colour, with `colour`
  bool live = false;                   ///< a terminal, where a line may be written over
};

/// Facts from the environment and the device; a null pointer is an unset variable.
struct TerminalFacts {
  bool is_terminal = false;
  std::size_t reported_width = 0;  ///< TIOCGWINSZ; 0: not known
  const char* columns = nullptr;
  const char* no_color = nullptr;
  const char* term = nullptr;
  const char* colorterm = nullptr;
  bool utf8 = true;
};

/// COLUMNS beats the device's own width and limits a pipe too. A terminal of unknown width has
/// 80 columns, and none has fewer than 20. Colour: a terminal, NO_COLOR unset or empty
/// (no-color.org), TERM not `dumb`; 24 bits where COLORTERM is `truecolor` or `24bit`.
[[nodiscard]] Terminal terminal_from(const TerminalFacts& facts);

/// Width of running text, such as a line of help. Wider lines are hard to read.
[[nodiscard]] std::size_t text_width(const Terminal& terminal);

}  // namespace shardsweep
