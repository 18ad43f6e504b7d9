// SPDX-License-Identifier: Apache-2.0
#include "text/placeholders.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace shardsweep {
namespace {

/// Bytes of a name at the beginning of `text`: small letters, digits and '_', a letter first.
std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const char c = text[length];
    const bool letter = c >= 'a' && c <= 'z';
    const bool other = (c >= '0' && c <= '9') || c == '_';
    if (!letter && !(other && length > 0)) break;
    ++length;
  }
  return length;
}

/// A piece of a text from one brace on.
struct Piece {
  std::string_view name;  ///< empty: a brace that stands for itself
  bool is_double = false;
  std::size_t length = 1;
};

Piece piece_at(std::string_view text) {
  const bool is_double = text.starts_with("{{");
  const std::string_view inside = text.substr(is_double ? 2 : 1);
  const std::string_view end = is_double ? "}}" : "}";
  const std::size_t length = name_length(inside);
  if (length == 0 || !inside.substr(length).starts_with(end)) return {};
  return {inside.substr(0, length), is_double, length + 2 * end.size()};
}

/// `{name?text}` and `{name=value?text}`.
struct Conditional {
  std::string_view name;
  std::optional<std::string_view> value;  ///< none: anything but off
  std::string_view text;
};

std::optional<Conditional> conditional(std::string_view word) {
  if (!word.starts_with('{') || !word.ends_with('}')) return std::nullopt;
  word.remove_prefix(1);
  word.remove_suffix(1);
  Conditional read;
  read.name = word.substr(0, name_length(word));
  if (read.name.empty()) return std::nullopt;
  word.remove_prefix(read.name.size());
  const std::size_t mark = word.find('?');
  if (mark == std::string_view::npos || (mark > 0 && word.front() != '=')) return std::nullopt;
  if (mark > 0) read.value = word.substr(1, mark - 1);
  read.text = word.substr(mark + 1);
  return read;
}

bool holds(const Conditional& condition, std::string_view value) {
  if (condition.value) return *condition.value == value;
  return value != "false" && value != "none" && value != "0" && !value.empty();
}

Result<void> check_name(std::string_view name, const std::vector<std::string_view>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  return fault(
      FaultKind::invalid_input,
      fmt::format("unknown placeholder {{{}}}{} Write {{{{{}}}}} for the text itself.", name,
                  nearest(name, names).empty() ? "." : did_you_mean(name, names), name));
}

}  // namespace

Result<void> check_placeholders(std::string_view text,
                                const std::vector<std::string_view>& names) {
  if (const auto condition = conditional(text)) {
    SHARDSWEEP_TRY(check_name(condition->name, names));
    return check_placeholders(condition->text, names);
  }
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at)) {
    const Piece piece = piece_at(text.substr(at));
    if (!piece.name.empty() && !piece.is_double) SHARDSWEEP_TRY(check_name(piece.name, names));
    at += piece.length;
  }
  return {};
}

std::string filled(std::string_view text, const Placeholders& values, DoubleBraces braces) {
  std::string out;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find('{'), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const Piece piece = piece_at(text);
    const auto value = piece.is_double ? values.end() : values.find(piece.name);
    if (value != values.end()) {
      out += value->second;
    } else if (piece.is_double && braces == DoubleBraces::make_single) {
      out += text.substr(1, piece.length - 2);
    } else {
      out += text.substr(0, piece.length);
    }
    text.remove_prefix(piece.length);
  }
  return out;
}

std::vector<std::string> filled_words(const std::vector<std::string>& words,
                                      const Placeholders& values, DoubleBraces braces) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const auto condition = conditional(word);
    const auto value = condition ? values.find(condition->name) : values.end();
    if (value == values.end()) {
      out.push_back(filled(word, values, braces));
    } else if (holds(*condition, value->second)) {
      out.push_back(filled(condition->text, values, braces));
    }
  }
  return out;
}

}  // namespace shardsweep
