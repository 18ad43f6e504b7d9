// SPDX-License-Identifier: Apache-2.0
#include "store/record_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::sqlite {
namespace {

/// True if nothing in the key ends a quote, and no part of it is empty.
bool is_path(const std::string& key) {
  constexpr std::size_t longest = 100;
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
        c == '.';
  };
  return !key.empty() && key.size() <= longest && key.front() != '.' && key.back() != '.' &&
      key.find("..") == std::string::npos && std::all_of(key.begin(), key.end(), fits);
}

/// "$.phase_ms.forward", each part in quotes: one may begin with a digit.
std::string json_path(const std::string& key) {
  std::string path = "$.\"";
  for (const char c : key)
    path += c == '.' ? std::string("\".\"") : std::string(1, c);
  return path + '"';
}

}  // namespace

std::vector<std::string> record_keys(
    Database& database, const ResolvedNames& chosen, const std::vector<std::string>& asked) {
  std::vector<std::string> found;
  for (const auto& key : asked) {
    if (!is_path(key) || std::find(found.begin(), found.end(), key) != found.end()) continue;
    Statement select(database,
        fmt::format("SELECT EXISTS (SELECT 1 FROM measurements AS m JOIN trials AS t ON t.id = "
                    "m.trial WHERE {} AND json_valid(m.detail) AND json_type(m.detail, '{}') IN "
                    "('integer', 'real', 'text', 'true', 'false'))",
            chosen_condition(chosen, "t.sweep", "t.id"), json_path(key)));
    auto row = select.use(chosen.sweeps, chosen.trials);
    if (row.next() && row.integer(0) != 0) found.push_back(key);
  }
  return found;
}

std::string record_columns(const std::vector<std::string>& keys, const std::string& attempt_id) {
  std::string text;
  for (const auto& key : keys)
    text += fmt::format(
        ", (SELECT iif(json_valid(m.detail), json_extract(m.detail, '{}'), NULL) FROM measurements "
        "AS m WHERE m.attempt = {}) AS {}",
        json_path(key), attempt_id, identifier(key));
  return text;
}

}  // namespace shardsweep::sqlite
