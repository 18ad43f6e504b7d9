// SPDX-License-Identifier: Apache-2.0
#include "sweep/layout_text.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t layout_axes = static_cast<std::size_t>(std::count_if(
    axis_table.begin(), axis_table.end(), [](const AxisInfo& axis) { return axis.of_layout(); }));

/// Axes in the order of their places, which are 1, 2, 3 and so on (axis_setting.cpp).
constexpr auto in_text_order = [] {
  std::array<const AxisInfo*, layout_axes> order{};
  for (const auto& axis : axis_table) {
    if (axis.of_layout()) order[static_cast<std::size_t>(axis.place - 1)] = &axis;
  }
  return order;
}();

/// mb4, selective, sp, no-overlap.
std::string label_of(const AxisInfo& axis, std::string_view value) {
  if (axis.kind == AxisKind::toggle)
    return fmt::format("{}{}", value == "true" ? "" : "no-", axis.short_name);
  return fmt::format("{}{}", axis.short_name, value);
}

using ValueOf = std::function<std::string(const AxisInfo&)>;

std::string text_of(const ValueOf& value_of, LayoutForm form) {
  std::string text;
  for (const auto* axis : in_text_order) {
    const auto value = value_of(*axis);
    if (!axis->is(AxisUse::spelt) && value == axis_text(*axis, axis->default_value)) continue;
    if (form == LayoutForm::degrees && !axis->is(AxisUse::degree)) continue;
    text += (text.empty() ? "" : " ") + label_of(*axis, value);
  }
  return text;
}

}  // namespace

std::string layout_text(const Point& point, LayoutForm form) {
  return text_of([&](const AxisInfo& axis) { return axis_text(axis, axis.get(point)); }, form);
}

std::string layout_label(const ValueOf& value_of) {
  return text_of(value_of, LayoutForm::label);
}

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
