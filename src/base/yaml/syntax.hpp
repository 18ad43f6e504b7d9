// SPDX-License-Identifier: Apache-2.0
// What a person did wrong where the YAML parser stopped, in plain words. The parser's own words
// differ between versions: only their beginnings are looked at, and unknown ones are shown.
#pragma once

#include "yaml/source.hpp"

#include <string>
#include <string_view>

namespace shardsweep::config {

inline constexpr std::string_view wrong_indentation =
    "wrong indentation; keys of one map and items of one list begin in the same column";
inline constexpr std::string_view open_quote = "this quote is never closed";

struct SyntaxMistake {
  int line = 0;
  int column = 0;
  std::string what;
};

/// The parser said `message` about that place.
[[nodiscard]] SyntaxMistake syntax_mistake(const Source& source, std::string_view message,
                                           int line, int column);

/// True where the quote that `text` begins with is closed in it.
[[nodiscard]] bool closing_quote(std::string_view text);

}  // namespace shardsweep::config
