// SPDX-License-Identifier: Apache-2.0
#include "config/sweep_reader.hpp"

#include "config/keys.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/policy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::string_view the_file = "the sweep";

std::vector<std::string_view> top_keys() {
  auto keys = keys_of("");
  const auto sections = policy_sections();
  keys.insert(keys.end(), sections.begin(), sections.end());
  return keys;
}

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
  // The grid first: what is missing in it is told only where nothing before was misread.
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
  const auto known = top_keys();
  for (const auto& key : root.keys) {
    const bool is_key = std::find(known.begin(), known.end(), key->text) != known.end();
    const auto* axis = is_key ? nullptr : find_axis(key->text);
    if (axis == nullptr) {
      rest.keys.push_back(key);
      continue;
    }
    mistakes_.add(*key,
                  fault_at(*key, fmt::format("'{}' is an axis; move it under 'axes' if it "
                                             "varies, else under 'constants'",
                                             axis->name)));
  }
  check_keys(rest, the_file, known, mistakes_);
}

void SweepReader::read_models(const YamlNode& root) {
  const auto* models = find(root, "models");
  if (models == nullptr || !mistakes_.take(*models, expect_map(*models, "'models'"))) return;
  for (std::size_t at = 0; at < models->keys.size(); ++at) {
    const auto& key = *models->keys[at];
    const auto name = mistakes_.take(key, read_name(key, "models"));
    auto model = read_model(*models->items[at], name.value_or(key.text), mistakes_);
    // One with mistakes is there by its name: that it is unknown would be told too.
    if (!model) model = ModelSpec{.name = key.text};
    sweep_.models.push_back(*std::move(model));
  }
}

}  // namespace shardsweep::config
