// SPDX-License-Identifier: Apache-2.0
#include "trainer/layout_words.hpp"

#include "text/pieces.hpp"
#include "text/placeholders.hpp"

#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

constexpr std::string_view beside = "with ";

std::string_view last_part(std::string_view word) {
  const auto dot = word.rfind('.');
  return dot == std::string_view::npos ? word : word.substr(dot + 1);
}

/// `a.b={c: 2, d: 3}` as `a.b.c=2`: its first name tells the axis.
void look_into_map(LayoutWord& word) {
  while (word.value && word.value->starts_with('{') && word.value->ends_with('}')) {
    const std::string_view inside = std::string_view(*word.value).substr(1, word.value->size() - 2);
    const auto colon = inside.find(':');
    if (colon == std::string_view::npos || inside.find_first_of("?{") < colon) return;
    std::string_view value = inside.substr(colon + 1);
    int depth = 0;
    for (std::size_t at = 0; at < value.size(); ++at) {
      depth += (value[at] == '{' ? 1 : 0) - (value[at] == '}' ? 1 : 0);
      if (value[at] == ',' && depth == 0) value = value.substr(0, at);
    }
    word.word += fmt::format(".{}", trimmed(inside.substr(0, colon)));
    word.value = std::string(trimmed(value));
  }
}

}  // namespace

std::optional<WordsForm> form_of_words(std::string_view name) {
  const auto names = split(forms_of_words, ',');
  for (std::size_t i = 0; i < names.size(); ++i)
    if (trimmed(names[i]) == name) return static_cast<WordsForm>(i + 1);
  return std::nullopt;
}

LayoutWord layout_word(std::string_view key, std::string text) {
  LayoutWord word{.is_beside = key.starts_with(beside), .text = std::move(text)};
  if (word.is_beside) key.remove_prefix(beside.size());
  word.axis = key.substr(0, key.find(' '));
  word.is_stage_1 = key.size() > word.axis.size();
  std::string_view rest = word.text;
  const auto mark = rest.find('?');
  if (rest.starts_with('{') && mark != std::string_view::npos) {
    word.condition = rest.substr(1, mark - 1);
    rest = rest.substr(mark + 1, rest.size() - mark - 2);
  }
  const auto equals = rest.find('=');
  word.word = rest.substr(0, equals);
  if (equals != std::string_view::npos) word.value = rest.substr(equals + 1);
  look_into_map(word);
  return word;
}

bool LayoutWord::is_as_it_stands() const {
  return value == fmt::format("{{{}}}", axis);
}

bool LayoutWords::chooses_another(std::string_view axis, std::string_view value) const {
  for (const std::string_view one : split(own, ' ')) {
    const auto equals = one.find('=');
    if (one.substr(0, equals) == axis)
      return equals == std::string_view::npos || one.substr(equals + 1) != value;
  }
  return false;
}

const LayoutWord* LayoutWords::word_of(std::string_view axis) const {
  const auto found = std::find_if(words.begin(), words.end(),
      [&](const LayoutWord& one) { return one.axis == axis && !one.is_beside && !one.is_stage_1; });
  return found == words.end() ? nullptr : &*found;
}

std::string_view LayoutWords::name_of(const LayoutWord& word) const {
  if (is_command_line(form)) return word.word;
  const std::string_view last = last_part(word.word);
  const auto alike = std::count_if(words.begin(), words.end(),
      [&](const LayoutWord& other) { return last_part(other.word) == last; });
  if (alike < 2 || last.size() == word.word.size()) return last;
  return last_part(std::string_view(word.word).substr(0, word.word.size() - last.size() - 1));
}

std::string bare_name(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string name = underscored(word);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::set<std::string, std::less<>> deciding_words(const LayoutWords& words) {
  std::set<std::string, std::less<>> names;
  for (const LayoutWord& word : words.words) {
    const AxisInfo* axis = find_axis(word.axis);
    const bool decides = word.axis == batch_name || axis->of_layout() || axis->name == "seq_len";
    if (decides) names.insert(bare_name(words.name_of(word)));
  }
  for (const LayoutReading& line : words.reads) {
    if (find_axis(line.name) == nullptr) continue;
    for (std::string_view name : placeholders_in(line.text)) {
      for (const std::string_view prefix : {asks_if_there, asks_if_on})
        if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
      if (const AxisInfo* axis = find_axis(name); axis == nullptr || axis->name != name)
        names.emplace(name);
    }
  }
  return names;
}

}  // namespace shardsweep
