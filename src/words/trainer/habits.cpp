// SPDX-License-Identifier: Apache-2.0
#include "trainer/habits.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

using Mistake = std::optional<std::string>;

/// 2.5, 4/12 or 0.3 GiB, as exactly as a double has it.
std::optional<double> habit_number(std::string_view text) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  constexpr std::string_view unit = " GiB";
  const bool is_size = text.ends_with(unit);
  if (is_size) text.remove_suffix(unit.size());
  const auto slash = text.find('/');
  const auto above = number_from<double>(text.substr(0, slash));
  const auto below =
      slash == std::string_view::npos ? 1.0 : number_from<double>(text.substr(slash + 1));
  if (!above || !below) return std::nullopt;
  const double number = *above / *below * (is_size ? gib : 1.0);
  if (!std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

Mistake set_value(double& value, std::string_view text, const KeyFacts&) {
  const auto number = habit_number(text);
  if (!number)
    return fmt::format(
        "expected a number, such as 2.5, 4/12 or 0.3 GiB, found {}", in_quotes(text));
  value = *number;
  return std::nullopt;
}
Mistake set_value(std::int64_t& value, std::string_view text, const KeyFacts& facts) {
  const auto number = number_from<std::int64_t>(text);
  if (!number || *number < facts.least || *number > facts.most)
    return fmt::format("expected a whole number from {} to {}, found {}", facts.least, facts.most,
        in_quotes(text));
  value = *number;
  return std::nullopt;
}
Mistake set_value(bool& value, std::string_view text, const KeyFacts&) {
  if (text != "true" && text != "false")
    return fmt::format("expected true or false, found {}", in_quotes(text));
  value = text == "true";
  return std::nullopt;
}
Mistake set_value(std::string& value, std::string_view text, const KeyFacts&) {
  value = text;
  return std::nullopt;
}
template <class Word>
Mistake set_value(Word& value, std::string_view text, const KeyFacts&) {
  const auto& words = words_of_habit(value);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end())
    return fmt::format("expected {}, found {}", fmt::join(words, " or "), in_quotes(text));
  value = static_cast<Word>(found - words.begin());
  return std::nullopt;
}

template <class Habits>
Mistake set_named(Habits& habits, std::string_view name, std::string_view text) {
  Mistake mistake;
  visit_values(habits, [&](const auto& key, auto& value) {
    if (key.name == name) mistake = set_value(value, text, key.facts);
  });
  return mistake;
}

template <class Habits>
std::vector<std::string_view> names_of() {
  std::vector<std::string_view> names;
  visit_fields<Habits>([&](const auto& key) { names.push_back(key.name); });
  return names;
}

}  // namespace

std::vector<std::string_view> habits_of_families() {
  return names_of<Family>();
}
std::vector<std::string_view> habits_of_memory() {
  return names_of<MemoryFamily>();
}

Mistake set_habit(Family& family, std::string_view name, std::string_view text) {
  return set_named(family, name, text);
}
Mistake set_habit(MemoryFamily& memory, std::string_view name, std::string_view text) {
  return set_named(memory, name, text);
}

}  // namespace shardsweep
