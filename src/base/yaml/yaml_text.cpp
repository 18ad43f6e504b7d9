// SPDX-License-Identifier: Apache-2.0
#include "yaml/yaml_text.hpp"

#include <algorithm>
#include <array>

namespace shardsweep::config {
namespace {

/// True for text that YAML reads as itself without quotes.
bool is_plain(std::string_view text) {
  constexpr std::array words{"null", "Null", "NULL", "true", "false", "auto"};
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '.' || c == '/' || c == '-';
  };
  const bool begins = !text.empty() && text.front() != '-' && text.front() != '.';
  return begins && std::all_of(text.begin(), text.end(), fits) &&
         std::find(words.begin(), words.end(), text) == words.end();
}

}  // namespace

std::string yaml_text(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string shown = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += c;
    } else if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else {
      shown += c;
    }
  }
  return shown + '"';
}

}  // namespace shardsweep::config
