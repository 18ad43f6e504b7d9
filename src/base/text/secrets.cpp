// SPDX-License-Identifier: Apache-2.0
#include "text/secrets.hpp"

#include <shardsweep/rank_variables.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace shardsweep {

bool may_be_secret(std::string_view name) {
  // NCCL_IB_PKEY is no key.
  if (is_setting(name)) return false;
  std::string upper;
  for (const char c : name)
    upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  // Tokens of a text, not of a login: TOKENIZERS_PARALLELISM, BATCH_TOKENS. Whatever counts as
  // a secret no longer tells trials apart by its value.
  for (const std::string_view counted : {"TOKENIZER", "TOKENS"}) {
    const auto at = upper.find(counted);
    if (at != std::string::npos) upper.erase(at, counted.size());
  }
  // Where it lies is no secret.
  if (upper.ends_with("_FILE") || upper.ends_with("_PATH") || upper.ends_with("_DIR")) return false;
  constexpr std::array<std::string_view, 12> words{"TOKEN", "SECRET", "PASSW", "PASSPHRASE",
      "APIKEY", "_KEY", "KEY_", "CREDENT", "COOKIE", "AUTH", "PRIVATE", "_PASS"};
  return upper == "KEY" || std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return upper.find(word) != std::string::npos;
  });
}

std::string without_secret_values(std::string_view yaml) {
  constexpr std::string_view of_names =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string hidden;
  while (!yaml.empty()) {
    const std::size_t length = std::min(yaml.find('\n'), yaml.size());
    const std::string_view line = yaml.substr(0, length);
    yaml.remove_prefix(std::min(length + 1, yaml.size()));
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = std::min(line.find_first_not_of(of_names, begin), line.size());
    const bool is_entry = begin > 0 && end > begin && line.substr(end).starts_with(": ");
    if (is_entry && line.substr(end + 2) != "''" &&
        may_be_secret(line.substr(begin, end - begin))) {
      hidden.append(line.substr(0, end)).append(": \"").append(hidden_value).append("\"\n");
    } else {
      hidden.append(line).append("\n");
    }
  }
  return hidden;
}

std::string masked(std::string text, const std::map<std::string, std::string>& secrets) {
  // The longest first: one may be a part of another.
  std::vector<std::string_view> values;
  for (const auto& [name, value] : secrets) {
    if (value.size() >= shortest_masked) values.push_back(value);
  }
  std::sort(values.begin(), values.end(),
      [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
  for (const std::string_view value : values) {
    for (auto at = text.find(value); at != std::string::npos;
         at = text.find(value, at + value.size()))
      text.replace(at, value.size(), value.size(), '*');
  }
  return text;
}

std::string MaskedPieces::take(std::string_view piece) {
  std::string text = masked(std::exchange(held_, {}).append(piece), secrets_);
  std::size_t held = 0;
  for (const auto& [name, value] : secrets_) {
    if (value.size() < shortest_masked) continue;
    std::size_t length = std::min(text.size(), value.size() - 1);
    while (length > held && !text.ends_with(std::string_view(value).substr(0, length)))
      --length;
    held = std::max(held, length);
  }
  held_ = text.substr(text.size() - held);
  text.resize(text.size() - held);
  return text;
}

std::string without_assigned_secrets(std::string_view line) {
  constexpr std::string_view of_names =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  for (std::size_t at = line.find_first_of(of_names); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_not_of(of_names, at), line.size());
    const std::string_view name = line.substr(at, end - at);
    at = line.find_first_of(of_names, end);
    const std::size_t sign = line.find_first_not_of("\"' \t", end);
    if (sign == std::string_view::npos || (line[sign] != '=' && line[sign] != ':')) continue;
    // "AuthenticationError: …" is what a bug report is for.
    if (name.ends_with("Error") || name.ends_with("Exception")) continue;
    const std::size_t value = line.find_first_not_of(" \t", sign + 1);
    if (value == std::string_view::npos || !may_be_secret(name)) continue;
    return std::string(line.substr(0, value)).append(hidden_value);
  }
  return std::string(line);
}

}  // namespace shardsweep
