// SPDX-License-Identifier: Apache-2.0
#include "causes/line_words.hpp"

#include "text/characters.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>

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
  constexpr std::size_t date = 4;   // digits of "E1102"
  constexpr std::size_t time = 26;  // "2024-07-29 17:14:59.920189"
  if (!line.empty() && is_digit(line.front()))
    return line.substr(std::min(line.find(": "), line.size())).starts_with(": E ") &&
        line.find(": ") <= time;
  const bool bracket = line.starts_with('[');
  const std::string_view head = line.substr(bracket ? 1 : 0, date + 2);
  if (!head.starts_with('E') && !head.starts_with('F')) return false;
  const auto end = std::find_if_not(head.begin() + 1, head.end(), is_digit);  // "E2E" is no level
  const bool dated = end == head.begin() + 1 + date && end != head.end() && *end == ' ';
  return dated || (bracket && (head.substr(1).starts_with(' ') || head.substr(1).starts_with(']')));
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

std::optional<EndingSignal> ending_signal_in(std::string_view line) {
  constexpr std::size_t reach = 28;  // "exits with return code = -9"
  constexpr int shells = 128;        // added to a signal
  constexpr int last = 64;           // of the signals
  for (std::size_t at = line.find("xit", 1); at != std::string_view::npos;
       at = line.find("xit", at + 1)) {
    const std::string_view rest = line.substr(at, reach);
    const std::size_t digit = rest.find_first_of("0123456789");
    // "perplexity" is no exit, and "exit status of worker 137" tells a number of something else.
    if ((line[at - 1] | ' ') != 'e' || (at > 1 && is_letter(line[at - 2])) || digit == rest.npos)
      continue;
    const std::string_view words = rest.substr(0, rest.find_last_not_of(" :='\"(-", digit - 1) + 1);
    const bool is_signal = words.ends_with("signal");
    if (!is_signal && !words.ends_with("code") && !words.ends_with("status")) continue;
    int number = 0;
    const auto [end, error] = std::from_chars(
        rest.data() + digit - (rest[digit - 1] == '-' ? 1 : 0), line.data() + line.size(), number);
    if (!is_signal && number > shells + last) number -= 2 * shells;
    const int signal = is_signal ? number : number < 0 ? -number : number - shells;
    if (error == std::errc() && signal > 0)
      return EndingSignal{signal, {at, static_cast<std::size_t>(end - line.data())}};
  }
  return std::nullopt;
}

}  // namespace shardsweep
