// SPDX-License-Identifier: Apache-2.0
#include "config/sweep_reader.hpp"

#include "config/keys.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/policy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace shardsweep::config {
namespace {

bool is_auto(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && node.text == "auto";
}

tl::unexpected<Fault> refuse_auto(const AxisInfo& axis, const YamlNode& node) {
  std::string able;
  for (const auto& each : axes()) {
    if (each.allows_auto) able += fmt::format("{}'{}'", able.empty() ? "" : " and ", each.name);
  }
  return refuse(node, "'{}' cannot be auto; only {} can", axis.name, able);
}

/// a, b or c
std::string alternatives(std::span<const std::string_view> words) {
  std::string all;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const auto separator = at == 0 ? "" : at + 1 == words.size() ? " or " : ", ";
    all += fmt::format("{}{}", separator, words[at]);
  }
  return all;
}

Result<std::int64_t> read_word(const AxisInfo& axis, const YamlNode& node) {
  SHARDSWEEP_ASSIGN(auto text, read_text(node, axis.name));
  for (const auto& synonym : word_synonyms(axis)) {
    if (text == synonym.text) text = synonym.word;
  }
  const auto found = std::find(axis.words.begin(), axis.words.end(), text);
  if (found != axis.words.end()) return found - axis.words.begin();
  const auto meant = nearest(text, {axis.words.begin(), axis.words.end()});
  const auto hint = meant.empty() ? "write " + alternatives(axis.words)
                                  : fmt::format("did you mean '{}'?", meant);
  return refuse(node, "{} is not a value of '{}'; {}", in_quotes(text), axis.name, hint);
}

Result<std::int64_t> read_toggle(const AxisInfo& axis, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && !node.quoted) {
    if (node.text == "0") return 0;
    if (node.text == "1") return 1;
  }
  SHARDSWEEP_ASSIGN(const bool value, read_bool(node, axis.name));
  return value ? 1 : 0;
}

std::optional<std::int64_t> read_value(
    const AxisInfo& axis, const YamlNode& node, ModelShelf& models, Mistakes& mistakes) {
  switch (axis.kind) {
    case AxisKind::model:
      return models.index(node);
    case AxisKind::word:
      return mistakes.take(node, read_word(axis, node));
    case AxisKind::toggle:
      return mistakes.take(node, read_toggle(axis, node));
    case AxisKind::integer:
      break;
  }
  // `nodes` has 0 for "unset" in a Point, which no file may ask for.
  const auto least = axis.name == "nodes" ? std::max<std::int64_t>(axis.minimum, 1) : axis.minimum;
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  constexpr std::int64_t most_stages = 8;  // what has few values, programs call by words
  if (axis.maximum < most_stages && node.kind == YamlNode::Kind::scalar && !node.text.empty() &&
      std::all_of(node.text.begin(), node.text.end(), is_letter)) {
    mistakes.add(node,
        "{0} is not a whole number; the program's own word for a value belongs into 'argv', as in "
        "\"{{{1}={2}?{3}}}\"",
        in_quotes(node.text), axis.name, least, node.text);
    return std::nullopt;
  }
  return mistakes.take(node, read_count(node, {least, axis.maximum, axis.name}));
}

std::vector<std::string_view> axis_words(const std::vector<std::string_view>& others) {
  auto words = others;
  for (const auto& axis : axes()) {
    words.push_back(axis.name);
    words.insert(words.end(), axis.aliases.begin(), axis.aliases.end());
  }
  return words;
}

Result<void> check_item(const AxisInfo& axis, const YamlNode& item) {
  if (item.kind == YamlNode::Kind::list)
    return refuse(item, "'{}' has a list inside its list; write the values directly", axis.name);
  if (is_auto(item) && axis.allows_auto)
    return refuse(item, "auto cannot stand in a list; write '{}: auto'", axis.name);
  return {};
}

}  // namespace

std::optional<std::int64_t> ModelShelf::index(const YamlNode& node) {
  auto& mistakes = presets_.mistakes();
  const bool is_file = node.kind == YamlNode::Kind::scalar && is_file_name(node.text);
  if (!is_file && !mistakes.take(node, read_name(node, "model"))) return std::nullopt;
  const auto called = [&](const std::string& name) {
    return std::find_if(
        models_.begin(), models_.end(), [&](const ModelSpec& model) { return model.name == name; });
  };
  if (const auto found = called(node.text); found != models_.end()) return found - models_.begin();
  auto model = presets_.model(node);
  if (!model) return std::nullopt;
  if (const auto same = called(model->name); same != models_.end()) {
    if (*same == *model) return same - models_.begin();
    mistakes.add(node, "another model is called {}; name this one: 'models: {{NAME: {}}}'",
        in_quotes(model->name), node.text);
    return std::nullopt;
  }
  models_.push_back(*std::move(model));
  return static_cast<std::int64_t>(models_.size()) - 1;
}

std::string unknown_axis(
    std::string_view word, std::string_view what, const std::vector<std::string_view>& others) {
  // One letter beside 'mbs', which is another batch.
  const bool global = word == "gbs" || word == "train_batch_size";
  const auto near =
      global ? std::string_view("global_batch_size") : nearest(word, axis_words(others));
  if (near.empty()) {
    return fmt::format(
        "unknown axis {} in {}; 'shardsweep help axes' lists them, and variables of your own "
        "belong "
        "under 'vars'",
        in_quotes(word), what);
  }
  const auto* axis = find_axis(near);
  return fmt::format(
      "unknown key {}, did you mean '{}'?", in_quotes(word), axis != nullptr ? axis->name : near);
}

std::vector<AxisEntry> axis_entries(const YamlNode& map, std::string_view what,
    const std::vector<std::string_view>& others, Mistakes& mistakes) {
  std::vector<AxisEntry> entries;
  if (!mistakes.take(map, expect_map(map, what))) return entries;
  std::map<const AxisInfo*, const YamlNode*> seen;
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    const auto& key = *map.keys[at];
    if (std::find(others.begin(), others.end(), key.text) != others.end()) continue;
    const auto* axis = find_axis(key.text);
    if (axis == nullptr) {
      mistakes.add(key, unknown_axis(key.text, what, others));
      continue;
    }
    const auto [first, is_new] = seen.emplace(axis, &key);
    if (is_new) {
      entries.push_back({axis, &key, map.items[at].get()});
    } else {
      mistakes.add(key, "'{}' and '{}' are one axis, '{}'; keep one of them", first->second->text,
          key.text, axis->name);
    }
  }
  return entries;
}

std::optional<AxisValues> read_axis_setting(
    const AxisInfo& axis, const YamlNode& node, ModelShelf& models, Mistakes& mistakes) {
  if (is_auto(node) && axis.kind != AxisKind::model) {
    if (axis.allows_auto) return AxisValues{&axis, true, {}};
    mistakes.take(node, refuse_auto(axis, node));
    return std::nullopt;
  }
  if (node.kind == YamlNode::Kind::list) {
    mistakes.add(node,
        "expected one value for '{}', got a list; an axis that varies belongs under 'axes'",
        axis.name);
    return std::nullopt;
  }
  const auto value = read_value(axis, node, models, mistakes);
  if (!value) return std::nullopt;
  return AxisValues{&axis, false, {*value}};
}

std::optional<AxisValues> read_axis_values(const AxisInfo& axis, const YamlNode& node,
    ModelShelf& models, Mistakes& mistakes, Repeats repeats) {
  if (node.kind != YamlNode::Kind::list) return read_axis_setting(axis, node, models, mistakes);
  if (node.items.empty()) {
    mistakes.add(node, "'{}' has no values; give it one, or remove it", axis.name);
    return std::nullopt;
  }
  if (node.items.size() == 1 && is_auto(*node.items[0]))
    return read_axis_setting(axis, *node.items[0], models, mistakes);
  AxisValues read{&axis, false, {}};
  std::set<std::int64_t> seen;
  const auto before = mistakes.count();
  for (const auto& item : node.items) {
    if (!mistakes.take(*item, check_item(axis, *item))) continue;
    const auto setting = read_axis_setting(axis, *item, models, mistakes);
    if (!setting) continue;
    const auto value = setting->values.front();
    if (!seen.insert(value).second && repeats == Repeats::refused) {
      mistakes.add(*item, "{} appears twice in '{}'", in_quotes(item->text), axis.name);
    }
    read.values.push_back(value);
  }
  if (mistakes.count() > before) return std::nullopt;
  return read;
}

namespace {

constexpr std::string_view the_file = "the sweep";

}  // namespace

std::vector<std::string_view> policy_sections() {
  std::vector<std::string_view> sections;
  for (const auto& field : policy_fields()) {
    if (std::find(sections.begin(), sections.end(), field.section) == sections.end())
      sections.push_back(field.section);
  }
  return sections;
}

SourcePosition position_of(const YamlNode& node) {
  return {node.source->name(), node.line, node.source->display_column(node.line, node.column)};
}

Result<SweepSpec> SweepReader::read(const YamlNode& root) {
  if (root.kind == YamlNode::Kind::null)
    return refuse(root, "the file is empty; 'shardsweep new' prints a sweep to start from");
  SHARDSWEEP_TRY(expect_map(root, the_file));
  sweep_.position = position_of(root);
  // The grid first: what is missing in it is told only if nothing before was misread.
  check_top_keys(root);
  read_models(root);
  read_grid(root);
  if (const auto* name = need(root, the_file, "name", mistakes_))
    mistakes_.assign(sweep_.name, *name, read_name(*name, "name"));
  if (const auto* cluster = need(root, the_file, "cluster", mistakes_)) {
    if (auto read = read_cluster(*cluster, presets_)) sweep_.cluster = *std::move(read);
  }
  read_trial_settings(root);
  SHARDSWEEP_TRY(mistakes_.verdict());
  settle_network_probe(find(root, "control"));
  return std::move(sweep_);
}

void SweepReader::check_top_keys(const YamlNode& root) {
  YamlNode rest = root;
  rest.keys.clear();
  auto known = keys_of("");
  const auto sections = policy_sections();
  known.insert(known.end(), sections.begin(), sections.end());
  for (const auto& key : root.keys) {
    const bool is_key = std::find(known.begin(), known.end(), key->text) != known.end();
    const auto* axis = is_key ? nullptr : find_axis(key->text);
    if (axis == nullptr) {
      rest.keys.push_back(key);
      continue;
    }
    mistakes_.add(*key,
        "'{}' is an axis; move it under 'axes' if it varies, else under 'constants'", axis->name);
  }
  check_keys(rest, the_file, known, mistakes_, belongs_to_the_site);
}

void SweepReader::read_models(const YamlNode& root) {
  const auto* models = find(root, "models");
  if (models == nullptr || !mistakes_.take(*models, expect_map(*models, "'models'"))) return;
  for (std::size_t at = 0; at < models->keys.size(); ++at) {
    const auto& key = *models->keys[at];
    const auto name = mistakes_.take(key, read_name(key, "models"));
    const auto& item = *models->items[at];
    const bool is_file = item.kind == YamlNode::Kind::scalar && is_file_name(item.text);
    auto model =
        is_file ? presets_.model(item) : read_model(item, name.value_or(key.text), mistakes_);
    if (model && name) model->name = *name;
    // Keep the name of a model with mistakes, so that it is not also reported as unknown.
    if (!model) model = ModelSpec{.name = key.text};
    sweep_.models.push_back(*std::move(model));
  }
}

}  // namespace shardsweep::config
