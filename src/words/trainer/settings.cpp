// SPDX-License-Identifier: Apache-2.0
#include "trainer/settings.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

std::string_view without_quotes(std::string_view text) {
  text = trimmed(text);
  const auto quote = [&] { return text.starts_with('"') || text.starts_with('\''); };
  if (text.size() >= 2 && quote() && text.back() == text.front())
    return text.substr(1, text.size() - 2);
  return text;
}

/// As a shell reads them: a word that begins with # begins a comment.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view blanks = " \t\r\n\\";
  for (;;) {
    const auto begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    if (text.front() == '#') {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
      continue;
    }
    const auto end = std::min(text.find_first_of(blanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

Settings Settings::of_flags(std::string_view text) {
  Settings settings;
  std::string last;
  for (const auto word : words_of(text)) {
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      last = word.substr(0, equals);
      settings.values_[last] =
          equals == std::string_view::npos ? "" : without_quotes(word.substr(equals + 1));
    } else if (!last.empty()) {
      settings.values_[last] = without_quotes(word);
      last.clear();
    }
  }
  return settings;
}

Settings Settings::of_overrides(std::string_view text) {
  Settings settings;
  for (std::string_view word : words_of(text)) {
    word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || word.starts_with('-')) continue;
    settings.values_[std::string(word.substr(0, equals))] =
        without_quotes(word.substr(equals + 1));
  }
  return settings;
}

Settings Settings::of_lines(std::string_view text, std::string_view without) {
  Settings settings;
  std::optional<std::size_t> passed_over;  // how far the section to leave out is indented
  for (std::string_view line : split(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const auto indent = line.find_first_not_of(" \t");
    line = trimmed(line);
    const auto mark = line.find_first_of(":=");
    if (mark == std::string_view::npos) continue;
    if (passed_over && indent > *passed_over) continue;
    passed_over.reset();
    if (!without.empty() && line.substr(0, mark) == without) passed_over = indent;
    std::string_view value = trimmed(line.substr(mark + 1));
    if (value.ends_with(',')) value = trimmed(value.substr(0, value.size() - 1));
    if (value.empty() || value == "{" || value == "[") continue;
    settings.values_[std::string(without_quotes(line.substr(0, mark)))] = without_quotes(value);
  }
  return settings;
}

Settings Settings::with_underscores() const {
  Settings settings;
  for (const auto& [name, value] : values_) {
    std::string changed = name;
    std::replace(changed.begin(), changed.end(), '-', '_');
    settings.values_[std::move(changed)] = value;
  }
  return settings;
}

std::string_view Settings::text(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string_view() : found->second;
}

Result<std::int64_t> Settings::number(std::string_view name, std::int64_t fallback) const {
  if (!has(name)) return fallback;
  const auto value = text(name);
  std::int64_t number = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  constexpr std::int64_t most = 1'000'000'000;
  if (read.ec != std::errc() || read.ptr != value.data() + value.size() || number < 0 ||
      number > most)
    return fault(FaultKind::invalid_input,
                 fmt::format("{}: {} is no whole number", name, in_quotes(value)));
  return number;
}

bool Settings::is_true(std::string_view name) const {
  const auto value = text(name);
  return has(name) && (value.empty() || value == "true" || value == "True" || value == "on");
}

Settings settings_of(std::string_view trainer, std::string_view text) {
  if (trainer == "megatron") return Settings::of_flags(text);
  if (trainer == "megatron-bridge") return Settings::of_overrides(text);
  return Settings::of_lines(text);
}

}  // namespace shardsweep
