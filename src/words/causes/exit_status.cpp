// SPDX-License-Identifier: Apache-2.0
#include "causes/exit_status.hpp"

#include "text/characters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace shardsweep {
namespace {

int signal_of(int code) {
  constexpr int shells = 128;  // added to a signal
  constexpr int last = 64;     // of the signals
  constexpr int codes = 256;
  if (code < 0) return -code;
  return code > shells + last ? codes - code : code - shells;
}

/// True if "exit" stands there as the beginning of a word, as it does not in "perplexity".
bool is_exit(std::string_view line, std::size_t at_x) {
  return at_x > 0 && (line[at_x - 1] | ' ') == 'e' && (at_x == 1 || !is_letter(line[at_x - 2]));
}

}  // namespace

std::optional<EndingSignal> ending_signal_in(std::string_view line) {
  constexpr std::size_t reach = 28;  // "exits with return code = -9"
  constexpr std::array<std::string_view, 3> names{"code", "status", "signal"};
  for (std::size_t at = line.find("xit"); at != std::string_view::npos;
       at = line.find("xit", at + 1)) {
    if (!is_exit(line, at)) continue;
    const std::string_view rest = line.substr(at, reach);
    const auto digit = std::find_if(rest.begin(), rest.end(), is_digit) - rest.begin();
    const std::string_view words = rest.substr(0, static_cast<std::size_t>(digit));
    const auto name = std::find_if(names.begin(), names.end(),
        [words](std::string_view one) { return words.find(one) != std::string_view::npos; });
    if (words.size() == rest.size() || name == names.end()) continue;
    // "exit status of worker 137" tells a number of something else.
    const std::size_t behind = words.rfind(*name) + name->size();
    if (words.find_first_not_of(" :='\"(-", behind) != std::string_view::npos) continue;
    const std::size_t from = at + words.size() - (words.ends_with('-') ? 1 : 0);
    int number = 0;
    const auto [end, error] =
        std::from_chars(line.data() + from, line.data() + line.size(), number);
    const int signal = *name == "signal" ? number : signal_of(number);
    if (error == std::errc() && signal > 0)
      return EndingSignal{signal, {at, static_cast<std::size_t>(end - line.data())}};
  }
  return std::nullopt;
}

}  // namespace shardsweep
