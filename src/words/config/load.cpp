// SPDX-License-Identifier: Apache-2.0
// The port's functions for sweeps: text, flags over it, tree, values.
#include "config/overrides.hpp"
#include "config/presets.hpp"
#include "config/shipped.hpp"
#include "config/sweep_reader.hpp"
#include "text/units.hpp"
#include "yaml/readers.hpp"
#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace shardsweep {
namespace {

using namespace config;

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
            sweep.runner.args.size() + sweep.runner.trainer.argv.size() +
            sweep.runner.trainer.patterns.size() + 2 * sweep.runner.trainer.files.size() +
            2 * sweep.container.env.size() + sweep.container.mounts.size() +
            sweep.container.options.size();
  if (values > most_yaml_nodes || explain_sweep(sweep).size() > most_yaml_bytes) {
    return refuse(root, fmt::format("the sweep has about {} values with points and presets "
                                    "written out; the limit is {}, in 4 MiB",
                                    values, most_yaml_nodes));
  }
  return {};
}

Result<SweepSpec> load(std::string text, const std::string& name, const LoadOptions& options) {
  Sources sources;
  const auto& source = sources.emplace_back(name, std::move(text));
  Mistakes mistakes(source);
  auto parsed = parse_yaml(source, mistakes);
  // Without a tree there is nothing more to be found.
  if (!parsed) SHARDSWEEP_TRY(mistakes.verdict());
  auto root = *std::move(parsed);
  for (const auto& setting : options.set) {
    SHARDSWEEP_ASSIGN(root, with_override(root, setting, sources));
  }
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
  node.source =
      &sources.emplace_back(fmt::format("{} {}", flag, value), value, Source::Kind::flag);
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

Result<SweepSpec> load_sweep_text(std::string_view text, const std::string& name,
                                  const LoadOptions& options) {
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
  for (const auto& setting : set) {
    SHARDSWEEP_ASSIGN(root, with_override(root, setting, sources));
  }
  Mistakes mistakes(*root->source);
  Policy policy;
  check_keys(*root, "'--set'", policy_sections(), mistakes);
  read_policy(*root, policy, mistakes);
  SHARDSWEEP_TRY(mistakes.verdict());
  return policy;
}

Result<ClusterSpec> load_cluster(const std::string& name,
                                 const std::filesystem::path& presets) {
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

std::vector<std::string> preset_names(const std::filesystem::path& presets, PresetKind kind) {
  return shipped_names(presets, folder_of(kind));
}

Result<ShippedFile> read_preset(const std::filesystem::path& presets, PresetKind kind,
                                const std::string& name) {
  return read_shipped(presets, "sweeps",
                      std::filesystem::path(folder_of(kind)) / (name + ".yaml"));
}

Result<ShippedFile> read_job_template(const std::filesystem::path& templates,
                                      const std::string& name) {
  return read_shipped(templates, "templates", name);
}

Result<double> parse_duration(std::string_view text, const std::string& name) {
  const auto seconds = config::parse_duration(text);
  if (!seconds) return fault(FaultKind::invalid_input, name + ": " + seconds.error());
  return *seconds;
}

}  // namespace shardsweep
