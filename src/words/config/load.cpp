// SPDX-License-Identifier: Apache-2.0
// The port's functions for sweeps: text, flags over it, tree, values. Flags change the tree,
// not the values: so what they say passes the same checks as the file, and a mistake names the
// flag.
#include "config/presets.hpp"
#include "config/sweep_reader.hpp"
#include "text/characters.hpp"
#include "text/units.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"
#include "yaml/readers.hpp"
#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

using namespace config;

// `--set axes.tp=2,4`: a value put into the tree before it is read, so that a flag is checked
// exactly as the file is.

constexpr std::size_t deepest_path = 8;

struct Override {
  std::vector<YamlNodePtr> path;  // keys
  YamlNodePtr value;
};

bool holds_axes(std::string_view section) {
  return section == "axes" || section == "constants";
}

/// True if both names mean one key, which may have another trainer's name.
bool same_key(std::string_view section, std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto* axis = holds_axes(section) ? find_axis(a) : nullptr;
  return axis != nullptr && axis == find_axis(b);
}

/// True for two axes of which only one can be set.
bool rivals(std::string_view a, std::string_view b) {
  const auto* first = find_axis(a);
  const auto* second = find_axis(b);
  if (first != nullptr && second != nullptr) {
    return (first->name == "nodes" && second->name == "gpus") ||
        (first->name == "gpus" && second->name == "nodes");
  }
  return (a == "global_batch_tokens" && b == "global_batch_size") ||
      (a == "global_batch_size" && b == "global_batch_tokens");
}

std::shared_ptr<YamlNode> key_node(const Source& source, std::size_t at, std::string text) {
  auto key = std::make_shared<YamlNode>();
  key->kind = YamlNode::Kind::scalar;
  key->text = std::move(text);
  key->source = &source;
  key->line = 1;
  key->column = static_cast<int>(at) + 1;
  return key;
}

Result<std::vector<YamlNodePtr>> path_keys(const Source& source, std::string_view path) {
  std::vector<YamlNodePtr> keys;
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find('.', at), path.size());
    const auto column = static_cast<int>(at) + 1;
    if (end == at)
      return tl::unexpected(source.fault_at(1, column, "a key is missing between the dots"));
    if (keys.size() == deepest_path)
      return tl::unexpected(source.fault_at(1, column, "too many keys; the deepest has 8"));
    keys.push_back(key_node(source, at, std::string(path.substr(at, end - at))));
    at = end + 1;
  }
  return keys;
}

/// The value as YAML would read it; under 'axes' and 'vars', commas part a list.
Result<YamlNodePtr> parse_value(const Source& source, std::size_t begin, bool list) {
  const auto value = source.text().substr(begin);
  const bool bare = list && value.find_first_of("[{") != 0;
  // Blanks in place of the path keep the columns equal to the flag's.
  const auto text =
      bare ? std::string(begin - 1, ' ') + "[" + value + "]" : std::string(begin, ' ') + value;
  return parse_yaml(text, source);
}

Result<Override> parse_override(const Source& source) {
  const auto& text = source.text();
  SHARDSWEEP_TRY(check_text(source, most_scalar_bytes));
  if (has_control(text)) return tl::unexpected(source.fault_at(1, 1, "holds control characters"));
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return tl::unexpected(
        source.fault_at(1, 1, "expected KEY=VALUE; write axes.tp=2,4 or measure.steps=5"));
  }
  Override read;
  SHARDSWEEP_ASSIGN(read.path, path_keys(source, std::string_view(text).substr(0, equals)));
  const auto& section = read.path.front()->text;
  const bool list = read.path.size() == 2 && (section == "axes" || section == "vars");
  SHARDSWEEP_ASSIGN(read.value, parse_value(source, equals + 1, list));
  return read;
}

/// A map to put a key into: `node` itself, or what its short form stands for.
std::shared_ptr<YamlNode> as_map(const YamlNodePtr& node, const YamlNode& key) {
  if (node && node->kind == YamlNode::Kind::map) return std::make_shared<YamlNode>(*node);
  auto map = std::make_shared<YamlNode>();
  map->kind = YamlNode::Kind::map;
  map->source = key.source;
  map->line = key.line;
  map->column = key.column;
  const bool short_form = key.text == "cluster" || key.text == "runner";
  if (node && node->kind == YamlNode::Kind::scalar && short_form) {
    auto name = std::make_shared<YamlNode>(*node);
    name->text = key.text == "cluster" ? "preset" : "name";
    map->keys.push_back(std::move(name));
    map->items.push_back(node);
  }
  return map;
}

Result<YamlNodePtr> put(const YamlNodePtr& node, const Override& setting, std::size_t depth) {
  if (depth == setting.path.size()) return setting.value;
  const auto& key = *setting.path[depth];
  const auto section = depth > 0 ? setting.path[depth - 1]->text : std::string();
  auto map = std::make_shared<YamlNode>(*node);
  std::size_t at = 0;
  while (at < map->keys.size() && !same_key(section, map->keys[at]->text, key.text))
    ++at;
  const auto before = at < map->keys.size() ? map->items[at] : nullptr;
  if (depth + 1 < setting.path.size() && before && before->kind == YamlNode::Kind::list)
    return refuse(key, "{} is a list; set the whole list", in_quotes(key.text));
  const auto inner = depth + 1 < setting.path.size() ? as_map(before, key) : nullptr;
  SHARDSWEEP_ASSIGN(auto value, put(inner, setting, depth + 1));
  if (at == map->keys.size()) {
    map->keys.push_back(setting.path[depth]);
    map->items.push_back(std::move(value));
  } else {
    map->keys[at] = setting.path[depth];
    map->items[at] = std::move(value);
  }
  return YamlNodePtr(std::move(map));
}

/// `section` without the keys that `key` makes void there.
YamlNodePtr without(
    const YamlNode& section, std::string_view name, std::string_view key, bool same_section) {
  auto rest = std::make_shared<YamlNode>(section);
  rest->keys.clear();
  rest->items.clear();
  for (std::size_t at = 0; at < section.keys.size(); ++at) {
    const auto& text = section.keys[at]->text;
    if (rivals(text, key) || (!same_section && same_key(name, text, key))) continue;
    rest->keys.push_back(section.keys[at]);
    rest->items.push_back(section.items[at]);
  }
  return rest;
}

/// An axis has one place, and the number of GPUs one key: the flag's.
YamlNodePtr displace(const YamlNodePtr& root, const Override& setting) {
  if (setting.path.size() != 2 || !holds_axes(setting.path[0]->text)) return root;
  auto cleared = std::make_shared<YamlNode>(*root);
  for (std::size_t at = 0; at < cleared->keys.size(); ++at) {
    const auto& name = cleared->keys[at]->text;
    if (!holds_axes(name) || cleared->items[at]->kind != YamlNode::Kind::map) continue;
    cleared->items[at] =
        without(*cleared->items[at], name, setting.path[1]->text, name == setting.path[0]->text);
  }
  return cleared;
}

/// `root` with `setting` (KEY.KEY=VALUE) in force. What the setting makes void elsewhere is
/// removed: an axis that is set under 'constants' no longer varies.
Result<YamlNodePtr> with_override(
    const YamlNodePtr& root, const std::string& setting, Sources& sources) {
  const auto& source = sources.emplace_back("--set " + setting, setting, Source::Kind::flag);
  SHARDSWEEP_ASSIGN(const auto parsed, parse_override(source));
  if (root->kind != YamlNode::Kind::map) return root;  // the reader of the root reports the mistake
  return put(displace(root, parsed), parsed, 0);
}

/// Points from a CSV and presets make a sweep larger than its file; written out, it has to be
/// one that can be loaded again: that is how it is kept.
Result<void> check_written_out(const SweepSpec& sweep, const YamlNode& root) {
  std::size_t values = 1000 + sweep.models.size() * 20;
  const auto count = [&](const std::vector<AxisValues>& settings) {
    for (const auto& each : settings)
      values += 2 + each.values.size();
  };
  count(sweep.axes);
  for (const auto& zip : sweep.zips)
    count(zip.axes);
  for (const auto& point : sweep.points)
    values += 1 + 2 * (point.settings.size() + point.vars.size());
  for (const auto& var : sweep.vars)
    values += 2 + var.values.size();
  values += sweep.excludes.size() * 5 + sweep.rules.size() * 7 + sweep.env.size() * 2 +
      sweep.secrets.size() * 2 + sweep.pass_env.size() + sweep.runner.args.size() +
      sweep.runner.trainer.argv.size() + sweep.runner.trainer.patterns.size() +
      2 * sweep.runner.trainer.files.size() + 2 * sweep.container.env.size() +
      sweep.container.mounts.size() + sweep.container.options.size();
  if (values > most_yaml_nodes || explain_sweep(sweep).size() > most_yaml_bytes) {
    return refuse(root,
        "the sweep has about {} values with points and presets written out; the limit is {}, in 4 "
        "MiB",
        values, most_yaml_nodes);
  }
  return {};
}

Result<SweepSpec> load(std::string text, const std::string& name, const LoadOptions& options) {
  Sources sources;
  const auto& source = sources.emplace_back(name, std::move(text));
  Mistakes mistakes(source);
  auto parsed = parse_yaml(source, mistakes);
  // Stop: no more mistakes can be found without a tree.
  if (!parsed) SHARDSWEEP_TRY(mistakes.verdict());
  auto root = *std::move(parsed);
  for (const auto& setting : options.set)
    SHARDSWEEP_SET(root, with_override(root, setting, sources));
  SweepReader reader(Presets(options.presets, sources, mistakes),
      {std::filesystem::path(name).parent_path(), options.programs}, sources);
  SHARDSWEEP_ASSIGN(auto sweep, reader.read(*root));
  SHARDSWEEP_TRY(check_written_out(sweep, *root));
  return sweep;
}

/// A flag's value as a node, so that faults show the flag.
YamlNode flag_value(Sources& sources, std::string_view flag, const std::string& value) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = value;
  node.source = &sources.emplace_back(fmt::format("{} {}", flag, value), value, Source::Kind::flag);
  node.line = 1;
  node.column = 1;
  return node;
}

std::string_view folder_of(PresetKind kind) {
  switch (kind) {
    case PresetKind::model:
      return "models";
    case PresetKind::cluster:
      return "clusters";
    case PresetKind::sweep:
      break;
  }
  return "";
}

}  // namespace

Result<SweepSpec> load_sweep(const std::filesystem::path& file, const LoadOptions& options) {
  SHARDSWEEP_ASSIGN(auto text, read_sweep_text(file));
  return load(std::move(text), file.string(), options);
}

Result<std::string> read_sweep_text(const std::filesystem::path& file) {
  return config::read_text_file(file, config::most_yaml_bytes);
}

Result<SweepSpec> load_sweep_text(
    std::string_view text, const std::string& name, const LoadOptions& options) {
  return load(std::string(text), name, options);
}

Result<Policy> load_policy(const std::vector<std::string>& set) {
  Sources sources;
  auto nothing = std::make_shared<YamlNode>();
  nothing->kind = YamlNode::Kind::map;
  nothing->source = &sources.emplace_back("--set", "", Source::Kind::flag);
  nothing->line = 1;
  nothing->column = 1;
  YamlNodePtr root = std::move(nothing);
  for (const auto& setting : set)
    SHARDSWEEP_SET(root, with_override(root, setting, sources));
  Mistakes mistakes(*root->source);
  Policy policy;
  check_keys(*root, "'--set'", policy_sections(), mistakes);
  read_policy(*root, policy, mistakes);
  SHARDSWEEP_TRY(mistakes.verdict());
  return policy;
}

Result<ClusterSpec> load_cluster(const std::string& name, const std::filesystem::path& presets) {
  Sources sources;
  const auto node = flag_value(sources, "--cluster", name);
  Mistakes mistakes(*node.source);
  auto cluster = Presets(presets, sources, mistakes).cluster(node);
  SHARDSWEEP_TRY(mistakes.verdict());
  return *std::move(cluster);
}

Result<ModelSpec> load_model(const std::string& name, const std::filesystem::path& presets) {
  Sources sources;
  const auto node = flag_value(sources, "--model", name);
  Mistakes mistakes(*node.source);
  auto model = Presets(presets, sources, mistakes).model(node);
  SHARDSWEEP_TRY(mistakes.verdict());
  return *std::move(model);
}

bool is_file_name(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") ||
      text.ends_with(".json");
}

std::filesystem::path user_folder() {
  const char* config = ::getenv("XDG_CONFIG_HOME");
  const char* home = ::getenv("HOME");
  if (config != nullptr && *config != '\0') return std::filesystem::path(config) / "shardsweep";
  return std::filesystem::path(home == nullptr ? "~" : home) / ".config" / "shardsweep";
}

std::filesystem::path own_trainer_file(std::string_view name) {
  if (is_file_name(name)) return name;
  if (name.empty() || find_trainer(name) != nullptr) return {};
  const auto file = user_folder() / "trainers" / fmt::format("{}.yaml", name);
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) ? file : std::filesystem::path();
}

Result<TrainerFile> load_trainer(const std::string& file) {
  Sources sources;
  const auto node = flag_value(sources, "--trainer", file);
  Mistakes mistakes(*node.source);
  auto own = Presets({}, sources, mistakes).trainer(node);
  SHARDSWEEP_TRY(mistakes.verdict());
  if (!own->file.log_of.empty()) {
    const auto its = log_patterns(own->file.log_of);
    own->file.patterns.insert(own->file.patterns.begin(), its.begin(), its.end());
  }
  own->file.start.name = file;
  return std::move(own->file);
}

std::vector<std::string> preset_names(const std::filesystem::path& presets, PresetKind kind) {
  return shipped_names(presets, folder_of(kind));
}

Result<ShippedFile> read_preset(
    const std::filesystem::path& presets, PresetKind kind, const std::string& name) {
  return read_shipped(presets, "sweeps", std::filesystem::path(folder_of(kind)) / (name + ".yaml"));
}

Result<ShippedFile> read_job_template(
    const std::filesystem::path& templates, const std::string& name) {
  return read_shipped(templates, "templates", name);
}

Result<double> parse_duration(std::string_view text, const std::string& name) {
  const auto seconds = config::parse_duration(text);
  if (!seconds) return fault(FaultKind::invalid_input, name + ": " + seconds.error());
  return *seconds;
}

}  // namespace shardsweep
