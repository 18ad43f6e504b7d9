// SPDX-License-Identifier: Apache-2.0
#include "adapters/config/sweep_reader.hpp"

#include "adapters/config/readers.hpp"
#include "adapters/config/text.hpp"

#include <shardsweep/policy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::string_view the_file = "the sweep";

std::vector<std::string_view> top_keys() {
  std::vector<std::string_view> keys{
      "name", "cluster", "models",  "constants", "axes",   "zip", "points",   "points_from",
      "vars", "control", "exclude", "measure",   "runner", "env", "classify", "search"};
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
  if (root.kind == YamlNode::Kind::null) return refuse(root, "holds no sweep: it is empty");
  SHARDSWEEP_TRY(expect_map(root, the_file));
  SHARDSWEEP_TRY(check_top_keys(root));
  sweep_.position = position_of(root);
  SHARDSWEEP_ASSIGN(const auto* name, need(root, the_file, "name"));
  SHARDSWEEP_ASSIGN(sweep_.name, read_name(*name, "name"));
  SHARDSWEEP_ASSIGN(const auto* cluster, need(root, the_file, "cluster"));
  SHARDSWEEP_ASSIGN(sweep_.cluster, read_cluster(*cluster, presets_));
  SHARDSWEEP_TRY(read_models(root));
  SHARDSWEEP_TRY(read_grid(root));
  SHARDSWEEP_TRY(read_trial_settings(root));
  settle_network_probe(find(root, "control"));
  return std::move(sweep_);
}

Result<void> SweepReader::check_top_keys(const YamlNode& root) const {
  const auto known = top_keys();
  for (const auto& key : root.keys) {
    if (std::find(known.begin(), known.end(), key->text) != known.end()) continue;
    if (const auto* axis = find_axis(key->text)) {
      return refuse(*key,
                    fmt::format("'{}' is an axis: it stands under 'axes' where it varies, "
                                "else under 'constants'",
                                axis->name));
    }
  }
  return check_keys(root, the_file, known);
}

Result<void> SweepReader::read_models(const YamlNode& root) {
  const auto* models = find(root, "models");
  if (models == nullptr) return {};
  SHARDSWEEP_TRY(expect_map(*models, "'models'"));
  for (std::size_t at = 0; at < models->keys.size(); ++at) {
    SHARDSWEEP_ASSIGN(const auto name, read_name(*models->keys[at], "models"));
    SHARDSWEEP_ASSIGN(sweep_.models.emplace_back(), read_model(*models->items[at], name));
  }
  return {};
}

}  // namespace shardsweep::config
