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

bool is_error(std::string_view line) {
  const bool bracket = line.starts_with('[');  // "[Epoch 3]" is no level
  const std::string_view head = line.substr(bracket ? 1 : 0, 2);
  const bool glog = head.size() == 2 && head[0] == 'E' &&
      (is_digit(head[1]) || (bracket && (head[1] == ' ' || head[1] == ']')));
  return glog || stands_alone(line, "ERROR") || stands_alone(line, "CRITICAL") ||
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
