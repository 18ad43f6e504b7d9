// SPDX-License-Identifier: Apache-2.0
// Characters and names: what may stand in a value, and how a value is shown in a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardsweep {

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
/// True for ASCII letters alone.
[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Bytes of the UTF-8 character that `text` begins with; 0 if there is no valid one.
[[nodiscard]] std::size_t character_length(std::string_view text);
[[nodiscard]] std::size_t character_count(std::string_view text);
[[nodiscard]] bool is_continuation(char byte);
/// True if `text` begins with a control character: C0, DEL, C1.
[[nodiscard]] bool is_control(std::string_view text);
[[nodiscard]] bool has_control(std::string_view text);

/// Control characters and bytes that are no text as \n, \x1b; cut after `most` bytes.
[[nodiscard]] std::string escaped(std::string_view text, std::size_t most = 60);
/// Foreign text within a sentence: at most `most` bytes of it, on one line, with a mark where it
/// was cut. White space becomes blanks, none of them at an end; what else a terminal obeys is
/// escaped.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t most);
/// A value in a message: in single quotes, escaped.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Letters, digits, `._-`; begins with a letter or digit; at most 64 characters. Such a name is
/// safe in paths, job names and scripts.
[[nodiscard]] bool is_name(std::string_view text);
inline constexpr std::string_view name_rule =
    "use letters, digits and '._-', begin with a letter or digit, at most 64 characters";
/// [A-Za-z_][A-Za-z0-9_]*
[[nodiscard]] bool is_environment_name(std::string_view text);
/// [a-z][a-z0-9_]*, at most 64 characters.
[[nodiscard]] bool is_var_name(std::string_view text);

// Output of a terminal as plain text.

/// Removes colours and other escape sequences (ESC [ … letter).
[[nodiscard]] std::string without_escapes(std::string_view text);

// Words as a POSIX shell reads them.

/// In single quotes, whatever is in it.
[[nodiscard]] inline std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += "'\\'";
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace shardsweep
