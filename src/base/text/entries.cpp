// SPDX-License-Identifier: Apache-2.0
#include "text/entries.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace shardsweep {
namespace {

/// 'it''s' without its quotes.
std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '\'' || text.back() != '\'') return std::string(text);
  std::string plain(text.substr(1, text.size() - 2));
  for (std::size_t at = plain.find("''"); at != std::string::npos; at = plain.find("''", at + 1))
    plain.erase(at, 1);
  return plain;
}

/// Empty lines behind a block are none of it.
void end_block(std::string& text, bool with_newline) {
  while (text.ends_with('\n'))
    text.pop_back();
  if (with_newline) text += '\n';
}

}  // namespace

std::vector<TableValue> read_table(std::string_view yaml) {
  constexpr std::size_t indent = 4;
  std::vector<TableValue> values;
  std::string_view section;
  std::string_view block;  // how one begins; empty: this line is of none
  int number = 0;
  for (const std::string_view line : split(yaml, '\n')) {
    ++number;
    if (!block.empty() && (line.empty() || line.starts_with("    "))) {
      values.back().text += std::string(line.substr(std::min(indent, line.size()))) + '\n';
      continue;
    }
    if (!block.empty()) end_block(values.back().text, block == "|");
    block = {};
    if (line.empty() || line.front() == '#') continue;
    const bool item = line.starts_with("- ");
    const bool inner = item || line.starts_with("  ");
    std::string_view rest = line.substr(inner ? 2 : 0);
    TableValue value{.line = number, .fresh = item};
    if (!item || !rest.starts_with('\'')) {
      const std::size_t colon = rest.find(':');
      if (colon == std::string_view::npos)
        throw std::invalid_argument(fmt::format("line {} is not 'key: value'", number));
      (inner ? value.key : section) = rest.substr(0, colon);
      rest.remove_prefix(colon + 1);
    }
    rest = trimmed(rest);
    if (rest == "|" || rest == "|-") block = rest;
    value.section = section;
    if (block.empty()) value.text = unquoted(rest);
    values.push_back(std::move(value));
  }
  if (!block.empty()) end_block(values.back().text, block == "|");
  return values;
}

std::string mistake_in(std::string_view key, const KeyFacts& facts, std::string_view text) {
  constexpr std::int64_t usual = 1024;
  const std::int64_t most = facts.most > 0 ? facts.most : usual;
  if (facts.type == KeyType::name && !is_name(text))
    return fmt::format("{} is not a valid name for '{}'; {}", in_quotes(text), key, name_rule);
  if (std::cmp_greater(text.size(), most))
    return fmt::format("'{}' has {} bytes; the limit is {}", key, text.size(), most);
  std::string checked(text);
  const auto ends_line = [](char c) { return c == '\n' || c == '\t'; };
  if (facts.type == KeyType::lines || facts.type == KeyType::pattern)
    std::replace_if(checked.begin(), checked.end(), ends_line, ' ');
  if (has_control(checked))
    return fmt::format("'{}' holds a control character: {}", key, in_quotes(text));
  const auto parts = split(text, '\n');
  if (facts.type == KeyType::pattern && std::any_of(parts.begin(), parts.end(), [](auto line) {
        return line.find_first_not_of("* ") == std::string_view::npos;
      }))
    return "this pattern matches every line; write some of the line's text, and * for the parts "
           "that vary";
  return "";
}

std::string no_word_of(
    std::string_view key, std::span<const std::string_view> words, std::string_view text) {
  // The empty word of some stands for nothing, and is not written.
  const auto written = words.subspan(words.front().empty() ? 1 : 0);
  return fmt::format(
      "expected one of {} for '{}', got {}", fmt::join(written, ", "), key, in_quotes(text));
}

void check_item(EntryKeys& keys, std::span<const TableValue> values, std::size_t at,
    std::vector<EntryMistake>& mistakes) {
  const std::string what = fmt::format("a {}", keys.noun);
  std::vector<std::string_view> missing = keys.required;
  if (!values.front().fresh)
    mistakes.push_back({at, "expected a list, each item of it " + what, true});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view key = values[i].key;
    const bool known = std::find(keys.known.begin(), keys.known.end(), key) != keys.known.end();
    std::erase_if(
        missing, [&](std::string_view one) { return one == (known ? key : nearest(key, {one})); });
    if (!known && !(key.empty() && values[i].fresh))
      mistakes.push_back({at + i, unknown_key(key, what, keys.known), true});
    if (key == "name" && !keys.names.insert(values[i].text).second)
      mistakes.push_back(
          {at, fmt::format("two {}s have the name {}", keys.noun, in_quotes(values[i].text))});
  }
  for (const std::string_view key : missing)
    mistakes.push_back({at, fmt::format("missing key '{}' in {}", key, what)});
}

}  // namespace shardsweep
