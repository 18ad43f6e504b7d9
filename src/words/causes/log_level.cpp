// SPDX-License-Identifier: Apache-2.0
#include "causes/log_level.hpp"

#include "text/characters.hpp"

#include <algorithm>
#include <cctype>

namespace shardsweep {
namespace {

/// True if the word stands alone, and is no part of a setting such as LOGLEVEL=WARNING.
bool stands_alone(std::string_view text, std::string_view word) {
  const auto joins = [&](std::size_t at) {
    const auto c = at < text.size() ? static_cast<unsigned char>(text[at]) : ' ';
    return std::isalnum(c) != 0 || c == '_' || c == '=' || c == '-';
  };
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!joins(at + word.size()) && (at == 0 || !joins(at - 1))) return true;
  }
  return false;
}

}  // namespace

bool is_warning(std::string_view line) {
  return line.starts_with("  warn") || line.starts_with("[W") ||
      (line.size() > 1 && line[0] == 'W' && is_digit(line[1])) ||
      line.find("arning: ") != std::string_view::npos || stands_alone(line, "WARNING");
}

bool is_error_of_glog(std::string_view line) {
  constexpr std::size_t date = 4;  // digits of "E1102"
  const bool bracket = line.starts_with('[');
  const std::string_view head = line.substr(bracket ? 1 : 0, date + 2);
  if (!head.starts_with('E')) return false;
  const auto end = std::find_if_not(head.begin() + 1, head.end(), is_digit);  // "E2E" is no level
  const bool dated = end == head.begin() + 1 + date && end != head.end() && *end == ' ';
  return dated || (bracket && (head.starts_with("E ") || head.starts_with("E]")));
}

bool is_error(std::string_view line) {
  return is_error_of_glog(line) || stands_alone(line, "ERROR") || stands_alone(line, "CRITICAL") ||
      stands_alone(line, "FATAL");
}

bool is_information(std::string_view line) {
  constexpr std::size_t longest_head = 80;
  std::string_view head = line.substr(0, std::min(line.find_first_of("'\""), longest_head));
  for (const std::string_view other : {"ERROR", "CRITICAL", "FATAL", "--"})
    head = head.substr(0, head.find(other));
  return stands_alone(head, "INFO");
}

bool is_of_logger(std::string_view line) {
  return stands_alone(line, "ERROR") || stands_alone(line, "WARNING");
}

}  // namespace shardsweep
