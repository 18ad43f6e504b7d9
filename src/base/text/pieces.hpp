// SPDX-License-Identifier: Apache-2.0
// Text taken apart, and put together.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
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

/// The first `most` of them, and how many more there are: `a, b and 3 more`.
template <class Items, class TextOf>
[[nodiscard]] std::string join_first(const Items& items, std::size_t most,
    std::string_view separator, const TextOf& text_of, std::string_view before_rest = " and ") {
  std::string all;
  std::size_t named = 0;
  for (const auto& item : items) {
    if (named++ == most)
      return all.append(before_rest) + std::to_string(items.size() - most) + " more";
    if (named > 1) all += separator;
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

// Names of flags as names of variables.

/// A name with _ for each -.
[[nodiscard]] inline std::string underscored(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace shardsweep
