// SPDX-License-Identifier: Apache-2.0
#include "sweep/vars_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <set>

namespace shardsweep {

std::string vars_text(const std::string& json) {
  const auto vars = nlohmann::json::parse(json, nullptr, false);
  if (!vars.is_object()) return {};
  std::string text;
  for (const auto& [name, value] : vars.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
        value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

std::string hosts_text(const std::string& json) {
  const auto hosts = nlohmann::json::parse(json, nullptr, false);
  if (!hosts.is_array()) return {};
  std::set<std::string> names;
  for (const auto& host : hosts)
    if (host.is_string()) names.insert(host.get<std::string>());
  return fmt::to_string(fmt::join(names, " "));
}

}  // namespace shardsweep
