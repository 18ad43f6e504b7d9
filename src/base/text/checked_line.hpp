// SPDX-License-Identifier: Apache-2.0
// Lines of JSON that end with the check of their own text: {"a":1,"check":"0123456789abcdef"}.
// They lie in folders under git, where a hand or a merge may change a number that was measured.
// The check keeps mistakes out, not forgers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// The last key of each line, and how a text is checked.
inline constexpr std::string_view check_key = "check";
[[nodiscard]] std::string check_of(std::string_view text);

/// A JSON object on one line, with its check and the end of the line.
[[nodiscard]] std::string checked_line(std::string_view object);

struct CheckedLine {
  std::string object;     ///< line without its check
  std::string_view said;  ///< the check that stands in the line; right if check_of(object) is it
};
/// Splits a line, given without its newline. None if it is not whole, or has brackets nested deeper
/// than ours: JSON is read and written by recursion.
[[nodiscard]] std::optional<CheckedLine> take_apart(std::string_view line);

}  // namespace shardsweep
