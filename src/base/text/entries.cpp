// SPDX-License-Identifier: Apache-2.0
#include "text/entries.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

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
        throw std::invalid_argument(fmt::format("line {}: no 'key: value'", number));
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

}  // namespace shardsweep
