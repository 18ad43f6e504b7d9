// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/axis_table.hpp>

namespace shardsweep {
namespace {

/// Places in a layout's text are 1, 2, 3 and so on, each once.
constexpr bool places_are_a_row() {
  std::int32_t most = 0;
  for (const auto& axis : axis_table)
    most = std::max(most, axis.place);
  for (std::int32_t place = 1; place <= most; ++place) {
    const auto here = std::count_if(axis_table.begin(), axis_table.end(),
        [place](const auto& axis) { return axis.place == place; });
    if (here != 1) return false;
  }
  return true;
}
static_assert(places_are_a_row());

}  // namespace

std::span<const AxisInfo> axes() {
  return axis_table;
}

const AxisInfo* find_axis(std::string_view name_or_alias) {
  for (const auto& axis : axis_table) {
    if (axis.name == name_or_alias) return &axis;
    for (const auto alias : axis.aliases) {
      if (alias == name_or_alias) return &axis;
    }
  }
  return nullptr;
}

std::span<const WordSynonym> word_synonyms(const AxisInfo& axis) {
  if (axis.name == "rank_order") return axis_rows::rank_order_synonyms;
  return {};
}

std::string axis_text(const AxisInfo& axis, std::int64_t value) {
  switch (axis.kind) {
    case AxisKind::word:
      return std::string(axis.words[static_cast<std::size_t>(value)]);
    case AxisKind::toggle:
      return value != 0 ? "true" : "false";
    case AxisKind::integer:
    case AxisKind::model:
      break;
  }
  return std::to_string(value);
}

}  // namespace shardsweep
