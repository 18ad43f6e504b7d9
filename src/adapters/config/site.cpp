// SPDX-License-Identifier: Apache-2.0
// The site file: how this user reaches the cluster.
#include "adapters/config/readers.hpp"
#include "adapters/config/source.hpp"
#include "adapters/config/sweep_reader.hpp"
#include "adapters/config/text.hpp"
#include "adapters/config/yaml_tree.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace shardsweep {
namespace {

using namespace config;

constexpr std::string_view the_file = "the site file";

/// What a job of ours is recognised, watched and ended by.
struct OwnedOption {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<OwnedOption, 15> owned_options{{
    {"job-name", "it carries the token by which a job is found again"},
    {"output", "the allocation's own folder holds it"},
    {"error", "the allocation's own folder holds it"},
    {"array", "every allocation is a job of its own"},
    {"requeue", "a retry is decided here, with a new attempt number"},
    {"no-requeue", "it is always set: a retry is decided here"},
    {"parsable", "it is always set: the job's id is read from the answer"},
    {"wrap", "the job script is rendered from a template"},
    {"export", "the environment is set by 'env'"},
    {"export-file", "the environment is set by 'env'"},
    {"signal", "the lead is told of the end by the signal that it expects"},
    {"wait", "nothing here waits for one job"},
    {"chdir", "the allocation's own folder is the working directory"},
    {"propagate", "limits of the login node have no place on a compute node"},
    {"nodes", "the layout says how many"},
}};

bool is_option_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return text.size() > 1 && text.size() <= 64 && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(), fits);
}

Result<void> check_option_name(const YamlNode& key) {
  auto plain = key.text.substr(std::min(key.text.find_first_not_of('-'), key.text.size()));
  std::replace(plain.begin(), plain.end(), '_', '-');
  if (!is_option_name(key.text)) {
    const auto hint = is_option_name(plain) ? fmt::format("write '{}'", plain)
                                            : std::string("small letters, digits and '-'");
    return refuse(key,
                  fmt::format("{} is no long option of sbatch: {}", in_quotes(key.text), hint));
  }
  for (const auto& option : owned_options) {
    if (option.name == key.text)
      return refuse(key, fmt::format("'{}' is ours to set: {}", key.text, option.reason));
  }
  return {};
}

/// An option's argument; empty for one that takes none, which a file says by `true`.
Result<std::string> read_option(const YamlNode& key, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && !node.quoted) {
    if (node.text == "true") return std::string();
    if (node.text == "false") {
      return refuse(node, fmt::format("'{}: false' sets nothing: leave it out", key.text));
    }
  }
  SHARDSWEEP_ASSIGN(auto text, read_text(node, key.text));
  if (text.empty())
    return refuse(node,
                  fmt::format("'{}' without a value: write true for a bare option", key.text));
  return text;
}

Result<void> read_slurm(const YamlNode& map, SiteSpec& into) {
  SHARDSWEEP_TRY(expect_map(map, "'slurm'"));
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    SHARDSWEEP_TRY(check_option_name(*map.keys[at]));
    SHARDSWEEP_ASSIGN(into.slurm[map.keys[at]->text],
                      read_option(*map.keys[at], *map.items[at]));
  }
  return {};
}

Result<Backend> read_backend(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && node.text == "local") return Backend::local;
  if (node.kind == YamlNode::Kind::scalar && node.text == "slurm") return Backend::slurm;
  return refuse(node,
                fmt::format("expected local or slurm for 'backend', got {}", describe(node)));
}

Result<SiteSpec> read_site(const YamlNode& root) {
  SHARDSWEEP_TRY(expect_map(root, the_file));
  SHARDSWEEP_TRY(check_keys(root, the_file,
                            {"backend", "shared_path", "env", "modules", "prolog", "slurm"}));
  SiteSpec site;
  site.position = position_of(root);
  if (const auto* node = find(root, "backend")) {
    SHARDSWEEP_ASSIGN(site.backend, read_backend(*node));
  }
  if (const auto* node = find(root, "shared_path")) {
    SHARDSWEEP_ASSIGN(site.shared_path, read_text(*node, "shared_path"));
    if (site.shared_path.empty() || site.shared_path.front() != '/') {
      return refuse(*node, fmt::format("{} is not absolute: write the path from '/', as the "
                                       "nodes see it",
                                       in_quotes(site.shared_path)));
    }
  }
  if (const auto* node = find(root, "env")) {
    SHARDSWEEP_ASSIGN(site.env, read_environment(*node));
  }
  if (const auto* node = find(root, "modules")) {
    SHARDSWEEP_ASSIGN(site.modules, read_texts(*node, "modules"));
  }
  if (const auto* node = find(root, "prolog")) {
    SHARDSWEEP_ASSIGN(site.prolog, read_texts(*node, "prolog"));
  }
  if (const auto* node = find(root, "slurm")) SHARDSWEEP_TRY(read_slurm(*node, site));
  return site;
}

}  // namespace

Result<SiteSpec> load_site(const std::filesystem::path& file) {
  SHARDSWEEP_ASSIGN(auto text, read_text_file(file, most_yaml_bytes));
  Sources sources;
  const auto& source = sources.emplace_back(file.string(), std::move(text));
  SHARDSWEEP_ASSIGN(const auto root, parse_yaml(source));
  // A site file of comments alone says nothing, which is not wrong.
  if (root->kind == YamlNode::Kind::null) return SiteSpec{.position = {file.string(), 0, 0}};
  return read_site(*root);
}

}  // namespace shardsweep
