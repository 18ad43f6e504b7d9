// SPDX-License-Identifier: Apache-2.0
#include "sweep/axis_setting.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

tl::unexpected<Fault> refuse(std::string what) {
  return fault(FaultKind::invalid_input, std::move(what));
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

const AxisInfo* axis_called(std::string_view name) {
  if (const auto* axis = find_axis(name)) return axis;
  for (const auto& axis : axes()) {
    if (axis.of_layout() && axis.short_name == name && !name.empty()) return &axis;
  }
  return nullptr;
}

Result<const AxisInfo*> layout_axis(std::string_view name) {
  const auto* axis = axis_called(name);
  if (axis != nullptr && axis->of_layout()) return axis;
  if (axis != nullptr)
    return refuse(
        fmt::format("'{}' is no part of a layout; it has an option of its own", axis->name));
  std::vector<std::string_view> names;
  for (const auto& one : axes()) {
    if (one.of_layout()) names.push_back(one.name);
  }
  if (!nearest(name, names).empty())
    return refuse(
        fmt::format("no axis is called {}{}", in_quotes(name), did_you_mean(name, names)));
  return refuse(fmt::format("no axis of a layout is called {}; there are: {}", in_quotes(name),
                            fmt::join(names, ", ")));
}

/// A piece of a label: tp2, full, sp, no-overlap.
std::optional<std::pair<const AxisInfo*, std::int64_t>> of_label(std::string_view piece) {
  const bool off = piece.starts_with("no-");
  const auto name = off ? piece.substr(3) : piece;
  for (const auto& axis : axes()) {
    if (!axis.of_layout()) continue;
    if (axis.kind == AxisKind::toggle && axis.short_name == name)
      return std::pair(&axis, std::int64_t{off ? 0 : 1});
    if (off) continue;
    if (axis.kind == AxisKind::word && axis.short_name.empty()) {
      const auto word = std::find(axis.words.begin(), axis.words.end(), piece);
      // Several axes have a word for "none"; a label has no default.
      if (word != axis.words.end() && word != axis.words.begin())
        return std::pair(&axis, std::int64_t{word - axis.words.begin()});
    }
    if (axis.kind == AxisKind::integer && !axis.short_name.empty() &&
        piece.starts_with(axis.short_name)) {
      if (const auto value = whole_number(piece.substr(axis.short_name.size())))
        return std::pair(&axis, *value);
    }
  }
  return std::nullopt;
}

Result<AxisValues> setting_of(std::string_view piece) {
  const auto equals = piece.find('=');
  if (equals == std::string_view::npos) {
    const auto found = of_label(piece);
    if (!found)
      return refuse(fmt::format("{} sets no axis; write such as tp=4 or recompute=full",
                                in_quotes(piece)));
    SHARDSWEEP_ASSIGN(const auto value,
                      axis_value_from(*found->first, axis_text(*found->first, found->second)));
    return AxisValues{found->first, false, {value}};
  }
  SHARDSWEEP_ASSIGN(const AxisInfo* axis, layout_axis(piece.substr(0, equals)));
  SHARDSWEEP_ASSIGN(const auto value, axis_value_from(*axis, piece.substr(equals + 1)));
  return AxisValues{axis, false, {value}};
}

}  // namespace

Result<std::int64_t> axis_value_from(const AxisInfo& axis, std::string_view text) {
  if (axis.kind == AxisKind::word) {
    for (const auto& synonym : word_synonyms(axis)) {
      if (synonym.text == text) text = synonym.word;
    }
    const auto word = std::find(axis.words.begin(), axis.words.end(), text);
    if (word != axis.words.end()) return word - axis.words.begin();
    return refuse(fmt::format("{} is not {}; it is one of: {}", axis.name, in_quotes(text),
                              fmt::join(axis.words, ", ")));
  }
  if (axis.kind == AxisKind::toggle && (text == "true" || text == "false"))
    return text == "true" ? 1 : 0;
  const auto value = whole_number(text);
  if (!value || *value < axis.minimum || *value > axis.maximum) {
    return refuse(axis.kind == AxisKind::toggle
                      ? fmt::format("{} is true or false, not {}", axis.name, in_quotes(text))
                      : fmt::format("{} is a whole number from {} to {}, not {}", axis.name,
                                    axis.minimum, axis.maximum, in_quotes(text)));
  }
  return *value;
}

Result<std::vector<AxisValues>> read_layout_settings(std::string_view text) {
  std::vector<AxisValues> all;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(" ,\t\n"), text.size());
    const auto piece = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (piece.empty()) continue;
    SHARDSWEEP_ASSIGN(auto setting, setting_of(piece));
    const bool twice = std::any_of(all.begin(), all.end(), [&](const AxisValues& one) {
      return one.axis == setting.axis;
    });
    if (twice) return refuse(fmt::format("{} is set twice", setting.axis->name));
    all.push_back(std::move(setting));
  }
  return all;
}

}  // namespace shardsweep
