// SPDX-License-Identifier: Apache-2.0
#include "trainer/clean_line.hpp"

#include "text/characters.hpp"
#include "text/escapes.hpp"

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

std::size_t digits_at(std::string_view text) {
  const auto* end = std::find_if_not(text.begin(), text.end(), is_digit);
  return static_cast<std::size_t>(end - text.begin());
}

/// The bytes of a rank's label at the beginning of `text`; 0: there is none.
std::size_t label_length(std::string_view text) {
  constexpr std::array<std::string_view, 3> words{"[default", "[rank", "["};
  for (const auto word : words) {
    if (!text.starts_with(word)) continue;
    const auto digits = digits_at(text.substr(word.size()));
    if (digits == 0 || !text.substr(word.size() + digits).starts_with("]:")) continue;
    return word.size() + digits + 2;
  }
  const auto digits = digits_at(text);
  return digits > 0 && text.substr(digits).starts_with(": ") ? digits + 2 : 0;
}

}  // namespace

std::string clean_line(std::string_view line) {
  std::string text = without_escapes(line.substr(0, longest_log_line));
  std::erase(text, '\r');
  // torchrun's label may stand behind srun's.
  for (std::size_t length = 0; (length = label_length(text)) > 0;)
    text.erase(0, length);
  return text;
}

}  // namespace shardsweep
