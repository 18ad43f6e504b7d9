// SPDX-License-Identifier: Apache-2.0
#include "sweep/layout_text.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::size_t layout_axes = static_cast<std::size_t>(std::count_if(
    axis_table.begin(), axis_table.end(), [](const AxisInfo& axis) { return axis.of_layout(); }));

/// Axes in the order of their places, which are 1, 2, 3 and so on (axis.cpp).
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

}  // namespace shardsweep
