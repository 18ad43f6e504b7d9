// SPDX-License-Identifier: Apache-2.0
// Patterns for lines of logs, which come from elsewhere: plain text with `*` for any text. The
// leftmost place of each piece is the best one for the rest, so nothing is ever tried twice:
// a line costs its length times the pattern's at worst, and no stack.
#pragma once

#include <string_view>

namespace shardsweep {

/// True where the pieces of `pattern`, parted by `*`, stand in `line` one after the other.
/// Letters count as they are written. An empty pattern, or one of `*` alone, matches nothing.
[[nodiscard]] bool matches(std::string_view line, std::string_view pattern);

/// Empty: the pattern holds nothing to look for.
[[nodiscard]] std::string_view longest_piece(std::string_view pattern);

}  // namespace shardsweep
