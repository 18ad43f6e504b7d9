// SPDX-License-Identifier: Apache-2.0
// Lines of a terminal, as text with its meaning: colours come last, so that widths are right.
#pragma once

#include <shardsweep/outcome.hpp>

#include <cstddef>
#include <cstdint>
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

}  // namespace shardsweep
