// SPDX-License-Identifier: Apache-2.0
#include "text/secret_lines.hpp"

#include "text/secrets.hpp"

#include <algorithm>

namespace shardsweep {

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
