// SPDX-License-Identifier: Apache-2.0
#include "sweep/vars_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using Json = nlohmann::json;

/// Reads an object; any other text is an empty one.
Json object_of(const std::string& text) {
  auto json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

std::string var_text(const std::string& name, const Json& value) {
  return fmt::format("{} {}", name, value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

std::string vars_text(const std::string& json) {
  std::vector<std::string> texts;
  const auto vars = object_of(json);
  for (const auto& [name, value] : vars.items())
    texts.push_back(var_text(name, value));
  return fmt::to_string(fmt::join(texts, ", "));
}

std::string vars_text_among(const std::string& json, const std::vector<std::string>& others) {
  const auto own = object_of(json);
  std::map<std::string, std::string> texts;
  for (const auto& other : others) {
    const auto vars = object_of(other);
    for (const auto& [name, value] : vars.items())
      texts[name] = "no " + name;
  }
  for (const auto& [name, value] : own.items())
    texts[name] = var_text(name, value);
  std::vector<std::string> all;
  for (auto& [name, text] : texts)
    all.push_back(std::move(text));
  return fmt::to_string(fmt::join(all, ", "));
}

std::string hosts_text(const std::string& json) {
  const auto hosts = Json::parse(json, nullptr, false);
  if (!hosts.is_array()) return {};
  std::set<std::string> names;
  for (const auto& host : hosts)
    if (host.is_string()) names.insert(host.get<std::string>());
  return fmt::to_string(fmt::join(names, " "));
}

}  // namespace shardsweep
