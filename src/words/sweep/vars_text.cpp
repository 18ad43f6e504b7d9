// SPDX-License-Identifier: Apache-2.0
#include "sweep/vars_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

}  // namespace shardsweep
