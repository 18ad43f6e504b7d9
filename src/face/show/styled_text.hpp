// SPDX-License-Identifier: Apache-2.0
// Lines of a terminal, as text with its meaning: colours come last, so that widths are right.
#pragma once

#include <shardsweep/outcome.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class Style : std::uint8_t { plain, strong, faint, good, notice, bad };

struct Span {
  std::string text;
  Style style = Style::plain;
};
using StyledLine = std::vector<Span>;

[[nodiscard]] Style style_of(Outcome outcome);

[[nodiscard]] std::size_t width_of(const StyledLine& line);
/// Cut to `width` columns, with an ellipsis where something is missing.
[[nodiscard]] StyledLine cut_to(StyledLine line, std::size_t width, bool utf8);
[[nodiscard]] std::string cut_to(std::string_view text, std::size_t width, bool utf8);
/// `parts` with ", " between them, in lines of at most `width` columns.
[[nodiscard]] std::vector<StyledLine> folded_list(
    const std::vector<Span>& parts, std::size_t width, std::size_t indent);
/// The line with the terminal's codes if `colour`; control characters are made visible in any case.
[[nodiscard]] std::string painted(const StyledLine& line, bool colour);

// The terminal that text is printed on: how wide it is, which characters it shows, whether it has
// colours.

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
