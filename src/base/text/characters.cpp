// SPDX-License-Identifier: Apache-2.0
#include "text/characters.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {

namespace {

constexpr std::size_t longest_name = 64;

unsigned byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

std::string escaped_byte(unsigned byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\x{:02x}", byte);
  }
}

}  // namespace

std::size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0 ? 2
      : first >= 0xE0 && first < 0xF0                      ? 3
      : first >= 0xF0 && first < 0xF5                      ? 4
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if (!is_continuation(text[at])) return 0;
  }
  const auto second = byte_at(text, 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool beyond = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

std::size_t character_count(std::string_view text) {
  return text.size() -
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

bool is_control(std::string_view text) {
  if (text.empty()) return false;
  const auto first = byte_at(text, 0);
  if (first < 0x20 || first == 0x7F) return true;
  return first == 0xC2 && text.size() > 1 && byte_at(text, 1) < 0xA0;
}

bool has_control(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_control(text.substr(at))) return true;
  }
  return false;
}

std::string escaped(std::string_view text, std::size_t most) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= most) return shown + "...";
    const auto length = character_length(text.substr(at));
    if (length == 0 || (length == 1 && is_control(text.substr(at)))) {
      shown += escaped_byte(byte_at(text, at));
      ++at;
    } else if (is_control(text.substr(at))) {
      shown += fmt::format("\\u{:04x}", byte_at(text, at + 1));
      at += length;
    } else {
      shown.append(text.substr(at, length));
      at += length;
    }
  }
  return shown;
}

std::string one_line(std::string_view text, std::size_t most) {
  constexpr std::string_view mark = " …";
  const bool marked = text.size() > most && most > mark.size();
  std::size_t end = std::min(text.size(), most) - (marked ? mark.size() : 0);
  while (end < text.size() && end > 0 && is_continuation(text[end]))
    --end;
  std::string line(text.substr(0, end));
  constexpr std::string_view white = "\t\n\v\f\r";
  std::replace_if(
      line.begin(), line.end(), [&](char c) { return white.find(c) != white.npos; }, ' ');
  return escaped(trimmed(line), std::string_view::npos) + std::string(marked ? mark : "");
}

std::string in_quotes(std::string_view text) {
  return "'" + escaped(text) + "'";
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > longest_name) return false;
  if (!is_letter(text[0]) && !is_digit(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
      [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-'; });
}

bool is_environment_name(std::string_view text) {
  if (text.empty() || is_digit(text[0])) return false;
  return std::all_of(
      text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

bool is_var_name(std::string_view text) {
  if (text.empty() || text.size() > longest_name || !is_lower(text[0])) return false;
  return std::all_of(
      text.begin(), text.end(), [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  for (auto at = text.find('\x1b'); at != std::string_view::npos; at = text.find('\x1b')) {
    plain += text.substr(0, at);
    text.remove_prefix(at + 1);
    if (!text.starts_with('[')) continue;
    text.remove_prefix(std::min(text.find_first_not_of("0123456789;?", 1), text.size() - 1) + 1);
  }
  return plain.append(text);
}

}  // namespace shardsweep
