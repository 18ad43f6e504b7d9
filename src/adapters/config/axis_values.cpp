// SPDX-License-Identifier: Apache-2.0
#include "adapters/config/axis_values.hpp"

#include "adapters/config/readers.hpp"
#include "adapters/config/text.hpp"
#include "domain/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace shardsweep::config {
namespace {

/// `nodes` and `gpus` have 0 for "unset" in a Point, which no file may ask for.
std::int64_t least_of(const AxisInfo& axis) {
  return axis.name == "nodes" ? std::max<std::int64_t>(axis.minimum, 1) : axis.minimum;
}

bool is_auto(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && node.text == "auto";
}

tl::unexpected<Fault> refuse_auto(const AxisInfo& axis, const YamlNode& node) {
  std::string able;
  for (const auto& each : axes()) {
    if (each.allows_auto) able += fmt::format("{}'{}'", able.empty() ? "" : " and ", each.name);
  }
  return refuse(node, fmt::format("'{}' can't be auto: only {} can", axis.name, able));
}

Result<std::int64_t> read_word(const AxisInfo& axis, const YamlNode& node) {
  SHARDSWEEP_ASSIGN(const auto text, read_text(node, axis.name));
  const auto found = std::find(axis.words.begin(), axis.words.end(), text);
  if (found != axis.words.end()) return found - axis.words.begin();
  const auto meant = nearest(text, {axis.words.begin(), axis.words.end()});
  const auto hint = meant.empty() ? fmt::format("one of {}", fmt::join(axis.words, ", "))
                                  : fmt::format("did you mean '{}'?", meant);
  return refuse(node,
                fmt::format("{} is no value of '{}': {}", in_quotes(text), axis.name, hint));
}

Result<std::int64_t> read_toggle(const AxisInfo& axis, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && !node.quoted) {
    if (node.text == "0") return 0;
    if (node.text == "1") return 1;
  }
  SHARDSWEEP_ASSIGN(const bool value, read_bool(node, axis.name));
  return value ? 1 : 0;
}

Result<std::int64_t> read_integer(const AxisInfo& axis, const YamlNode& node) {
  auto read = read_count(node, {least_of(axis), axis.maximum, axis.name});
  if (read || axis.minimum != axis.maximum) return read;
  // The range of a reserved axis would be an odd thing to read.
  const auto any = read_count(node, {0, INT64_MAX, axis.name});
  if (!any) return read;
  return refuse(node,
                fmt::format("'{}' is reserved: only {} for now", axis.name, axis.maximum));
}

Result<std::int64_t> read_value(const AxisInfo& axis, const YamlNode& node,
                                ModelShelf& models) {
  switch (axis.kind) {
    case AxisKind::model:
      return models.index(node);
    case AxisKind::word:
      return read_word(axis, node);
    case AxisKind::toggle:
      return read_toggle(axis, node);
    case AxisKind::integer:
      break;
  }
  return read_integer(axis, node);
}

std::vector<std::string_view> axis_words(const std::vector<std::string_view>& others) {
  auto words = others;
  for (const auto& axis : axes()) {
    words.push_back(axis.name);
    words.insert(words.end(), axis.aliases.begin(), axis.aliases.end());
  }
  return words;
}

}  // namespace

Result<std::int64_t> ModelShelf::index(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(const auto name, read_name(node, "model"));
  const auto found = std::find_if(models_.begin(), models_.end(),
                                  [&](const ModelSpec& model) { return model.name == name; });
  if (found != models_.end()) return found - models_.begin();
  SHARDSWEEP_ASSIGN(models_.emplace_back(), presets_.model(node));
  return static_cast<std::int64_t>(models_.size()) - 1;
}

std::string unknown_axis(std::string_view word, std::string_view what,
                         const std::vector<std::string_view>& others) {
  const auto near = nearest(word, axis_words(others));
  if (near.empty()) {
    return fmt::format("unknown axis {} in {}: free axes of your own stand under 'vars'",
                       in_quotes(word), what);
  }
  const auto* axis = find_axis(near);
  return fmt::format("unknown key {}, did you mean '{}'?", in_quotes(word),
                     axis != nullptr ? axis->name : near);
}

Result<std::vector<AxisEntry>> axis_entries(const YamlNode& map, std::string_view what,
                                            const std::vector<std::string_view>& others) {
  SHARDSWEEP_TRY(expect_map(map, what));
  std::vector<AxisEntry> entries;
  std::map<const AxisInfo*, const YamlNode*> seen;
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    const auto& key = *map.keys[at];
    if (std::find(others.begin(), others.end(), key.text) != others.end()) continue;
    const auto* axis = find_axis(key.text);
    if (axis == nullptr) return refuse(key, unknown_axis(key.text, what, others));
    const auto [first, is_new] = seen.emplace(axis, &key);
    if (!is_new) {
      return refuse(key, fmt::format("'{}' and '{}' are one axis, '{}': keep one of them",
                                     first->second->text, key.text, axis->name));
    }
    entries.push_back({axis, &key, map.items[at].get()});
  }
  return entries;
}

Result<AxisValues> read_axis_setting(const AxisInfo& axis, const YamlNode& node,
                                     ModelShelf& models) {
  if (is_auto(node) && axis.kind != AxisKind::model) {
    if (!axis.allows_auto) return refuse_auto(axis, node);
    return AxisValues{&axis, true, {}};
  }
  if (node.kind == YamlNode::Kind::list) {
    return refuse(node, fmt::format("expected one value for '{}', got a list: what varies "
                                    "stands under 'axes'",
                                    axis.name));
  }
  SHARDSWEEP_ASSIGN(const auto value, read_value(axis, node, models));
  return AxisValues{&axis, false, {value}};
}

Result<AxisValues> read_axis_values(const AxisInfo& axis, const YamlNode& node,
                                    ModelShelf& models, Repeats repeats) {
  if (node.kind != YamlNode::Kind::list) return read_axis_setting(axis, node, models);
  if (node.items.empty()) {
    return refuse(node,
                  fmt::format("'{}' has no values: give it one, or leave it out", axis.name));
  }
  if (node.items.size() == 1 && is_auto(*node.items[0]))
    return read_axis_setting(axis, *node.items[0], models);
  AxisValues read{&axis, false, {}};
  std::set<std::int64_t> seen;
  for (const auto& item : node.items) {
    if (item->kind == YamlNode::Kind::list)
      return refuse(*item, fmt::format("a list inside of the list of '{}'", axis.name));
    if (is_auto(*item) && axis.allows_auto)
      return refuse(*item, fmt::format("auto stands alone: '{}: auto'", axis.name));
    SHARDSWEEP_ASSIGN(const auto setting, read_axis_setting(axis, *item, models));
    const auto value = setting.values.front();
    if (!seen.insert(value).second && repeats == Repeats::refused) {
      return refuse(*item,
                    fmt::format("{} stands twice in '{}'", in_quotes(item->text), axis.name));
    }
    read.values.push_back(value);
  }
  return read;
}

}  // namespace shardsweep::config
