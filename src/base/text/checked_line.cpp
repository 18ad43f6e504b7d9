// SPDX-License-Identifier: Apache-2.0
#include "text/checked_line.hpp"

#include "text/content_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace shardsweep {
namespace {

constexpr int deepest_line = 8;
constexpr std::size_t check_digits = 16;

/// Brackets within brackets, outside of texts.
int depth_of(std::string_view line) {
  int depth = 0;
  int deepest = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

std::string check_of(std::string_view text) {
  Fnv128 hash;
  hash.add(text);
  return hash.hex().substr(0, check_digits);
}

std::string checked_line(std::string_view object) {
  return fmt::format(
      "{},\"{}\":\"{}\"}}\n", object.substr(0, object.size() - 1), check_key, check_of(object));
}

std::optional<CheckedLine> take_apart(std::string_view line) {
  const std::string begin = fmt::format(",\"{}\":\"", check_key);
  constexpr std::string_view end = "\"}";
  const std::size_t tail = begin.size() + check_digits + end.size();
  const bool is_whole = line.size() > tail && line.ends_with(end) &&
      line.substr(line.size() - tail, begin.size()) == begin;
  if (!is_whole || depth_of(line) > deepest_line) return std::nullopt;
  return CheckedLine{std::string(line.substr(0, line.size() - tail)) + "}",
      line.substr(line.size() - tail + begin.size(), check_digits)};
}

}  // namespace shardsweep
