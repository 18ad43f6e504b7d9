// SPDX-License-Identifier: Apache-2.0
// Enumerations that are stored or shown as words: one table of words per enumeration, beside
// it. Stored words are never renamed.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace shardsweep {

/// The words of an enumeration, in the order of its values. Each enumeration specialises it by
/// SHARDSWEEP_WORDS(Enum, "word", …).
template <class Enum>
inline constexpr std::array<std::string_view, 0> word_table{};
#define SHARDSWEEP_WORDS(Enum, ...) \
  template <>                       \
  inline constexpr auto word_table<Enum> = std::to_array<std::string_view>({__VA_ARGS__})

template <class Enum>
concept Worded = std::is_enum_v<Enum> &&(word_table<Enum>.size() > 0);

template <Worded Enum>
[[nodiscard]] constexpr std::string_view word_of(Enum value) {
  return word_table<Enum>.at(static_cast<std::size_t>(value));
}

/// Empty: no value has this word.
template <Worded Enum>
[[nodiscard]] constexpr std::optional<Enum> from_word(std::string_view text) {
  for (std::size_t i = 0; i < word_table<Enum>.size(); ++i) {
    if (word_table<Enum>[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace shardsweep
