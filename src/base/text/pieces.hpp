// SPDX-License-Identifier: Apache-2.0
// Text taken apart, and put together.
#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace shardsweep {

/// Removes blanks at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// Pieces between the marks: one more than there are marks.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char mark);

/// Texts of the items with `separator` between them. `text_of` is a function or a member.
template <class Items, class TextOf>
[[nodiscard]] std::string join_texts(
    const Items& items, std::string_view separator, const TextOf& text_of) {
  std::string all;
  for (const auto& item : items) {
    if (!all.empty()) all += separator;
    all += std::invoke(text_of, item);
  }
  return all;
}

/// Reads the whole text as a number in plain form; empty if it is anything else, or too large.
template <class Number>
[[nodiscard]] std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}
template <>
std::optional<double> number_from<double>(std::string_view text);

}  // namespace shardsweep
