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
#include <charconv>
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
constexpr std::array<OwnedOption, 24> owned_options{{
    {"job-name", "it carries the token by which a job is found again"},
    {"output", "the allocation's own folder holds it"},
    {"error", "the allocation's own folder holds it"},
    {"array", "write 'lane: {array: N}' in the sweep file"},
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
    {"ntasks", "one node agent runs on every node"},
    {"ntasks-per-node", "one node agent runs on every node"},
    {"no-kill", "it is always set: the lead outlives a node to say what happened"},
    {"open-mode", "it is always append"},
    {"hold", "write 'strict: true' beside 'slurm'"},
    {"help", "it submits nothing"},
    {"test-only", "it submits nothing"},
    {"clusters", "jobs are looked for in the cluster that slurm.conf names"},
    {"cluster", "jobs are looked for in the cluster that slurm.conf names"},
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
Result<std::string> read_argument(const YamlNode& key, const YamlNode& node) {
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

/// "1", "2-8" and "9-": node counts.
Result<SlurmValue> read_node_range(const YamlNode& key) {
  const auto wrong = [&key] {
    return refuse(key, fmt::format("{} is no range of node counts: write '4', '2-8' or '9-'",
                                   in_quotes(key.text)));
  };
  SlurmValue range;
  const std::string& text = key.text;
  const char* const end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, range.from);
  if (parsed.ec != std::errc() || range.from < 1) return wrong();
  if (parsed.ptr == end) {
    range.to = range.from;
    return range;
  }
  if (*parsed.ptr != '-') return wrong();
  if (parsed.ptr + 1 == end) return range;
  parsed = std::from_chars(parsed.ptr + 1, end, range.to);
  if (parsed.ec != std::errc() || parsed.ptr != end || range.to < range.from) return wrong();
  return range;
}

/// A value for all node counts, or a map from ranges of them to values.
Result<std::vector<SlurmValue>> read_option(const YamlNode& key, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::map) {
    SHARDSWEEP_ASSIGN(std::string value, read_argument(key, node));
    return std::vector<SlurmValue>{{.value = std::move(value)}};
  }
  std::vector<SlurmValue> values;
  for (std::size_t at = 0; at < node.keys.size(); ++at) {
    SHARDSWEEP_ASSIGN(SlurmValue value, read_node_range(*node.keys[at]));
    for (const SlurmValue& other : values) {
      if (value.from <= other.to && other.from <= value.to) {
        return refuse(*node.keys[at], fmt::format("{} overlaps with a range before it",
                                                  in_quotes(node.keys[at]->text)));
      }
    }
    SHARDSWEEP_ASSIGN(value.value, read_argument(key, *node.items[at]));
    values.push_back(std::move(value));
  }
  std::sort(values.begin(), values.end(),
            [](const SlurmValue& a, const SlurmValue& b) { return a.from < b.from; });
  if (values.empty()) return refuse(node, fmt::format("'{}' has no values", key.text));
  return values;
}

/// What the template gives unless the site says otherwise.
bool is_given_by_template(std::string_view option) {
  return option == "gpus-per-node" || option == "exclusive" || option == "mem";
}

bool says_false(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && !node.quoted && node.text == "false";
}

Result<void> read_slurm(const YamlNode& map, SiteSpec& into) {
  SHARDSWEEP_TRY(expect_map(map, "'slurm'"));
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    const YamlNode& key = *map.keys[at];
    SHARDSWEEP_TRY(check_option_name(key));
    if (is_given_by_template(key.text) && says_false(*map.items[at])) {
      into.slurm_without.push_back(key.text);
      continue;
    }
    SHARDSWEEP_ASSIGN(into.slurm[key.text], read_option(key, *map.items[at]));
  }
  std::sort(into.slurm_without.begin(), into.slurm_without.end());
  return {};
}

Result<LaunchMode> read_launch(const YamlNode& node) {
  for (std::size_t at = 0; at < launch_words.size(); ++at) {
    if (node.kind == YamlNode::Kind::scalar && node.text == launch_words[at]) {
      return static_cast<LaunchMode>(at);
    }
  }
  return refuse(node,
                fmt::format("expected agents or srun for 'launch', got {}", describe(node)));
}

Result<std::string> read_absolute(const YamlNode& node, std::string_view key) {
  auto path = read_text(node, key);
  if (path && (path->empty() || path->front() != '/')) {
    return refuse(node, fmt::format("{} is not absolute: write the path from '/', as the "
                                    "nodes see it",
                                    in_quotes(*path)));
  }
  return path;
}

Result<RestSettings> read_rest(const YamlNode& node) {
  SHARDSWEEP_TRY(expect_map(node, "'slurmrestd'"));
  SHARDSWEEP_TRY(check_keys(node, "'slurmrestd'", {"url", "token_file", "user"}));
  SHARDSWEEP_ASSIGN(const YamlNode* url, need(node, "'slurmrestd'", "url"));
  RestSettings rest;
  SHARDSWEEP_ASSIGN(rest.url, read_text(*url, "url"));
  const bool known = rest.url.rfind("http://", 0) == 0 || rest.url.rfind("https://", 0) == 0 ||
                     rest.url.rfind("unix:/", 0) == 0;
  if (!known) {
    return refuse(*url, fmt::format("{} is no address of slurmrestd: write http://host:port, "
                                    "https://host or unix:/path",
                                    in_quotes(rest.url)));
  }
  if (const auto* file = find(node, "token_file")) {
    SHARDSWEEP_ASSIGN(rest.token_file, read_absolute(*file, "token_file"));
  }
  if (const auto* user = find(node, "user")) {
    SHARDSWEEP_ASSIGN(rest.user, read_name(*user, "user"));
  }
  return rest;
}

Result<std::vector<NotifyEvent>> read_events(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(const auto words, read_texts(node, "events"));
  std::vector<NotifyEvent> events;
  for (const std::string& word : words) {
    const auto* found = std::find(notify_words.begin(), notify_words.end(), word);
    if (found == notify_words.end()) {
      return refuse(node, fmt::format("unknown event {} in 'events': sweep_ended, stalled, "
                                      "node_quarantined or blind",
                                      in_quotes(word)));
    }
    events.push_back(static_cast<NotifyEvent>(found - notify_words.begin()));
  }
  return events;
}

Result<NotifySettings> read_notify(const YamlNode& node) {
  constexpr std::string_view what = "'notify'";
  SHARDSWEEP_TRY(expect_map(node, what));
  SHARDSWEEP_TRY(check_keys(node, what, {"url", "url_file", "header_file", "events"}));
  NotifySettings notify;
  if (const auto* url = find(node, "url")) {
    SHARDSWEEP_ASSIGN(notify.url, read_text(*url, "url"));
    if (!may_be_notified(notify.url)) {
      return refuse(*url, fmt::format("{} is neither https nor http on this machine: what is "
                                      "told must not be read on its way",
                                      in_quotes(notify.url)));
    }
  }
  if (const auto* file = find(node, "url_file")) {
    SHARDSWEEP_ASSIGN(notify.url_file, read_absolute(*file, "url_file"));
  }
  if (notify.url.empty() == notify.url_file.empty())
    return refuse(node, "'notify' needs either url, or url_file where the address is a secret");
  if (const auto* file = find(node, "header_file")) {
    SHARDSWEEP_ASSIGN(notify.header_file, read_absolute(*file, "header_file"));
  }
  notify.events = {NotifyEvent::sweep_ended, NotifyEvent::stalled,
                   NotifyEvent::node_quarantined, NotifyEvent::blind};
  if (const auto* events = find(node, "events")) {
    SHARDSWEEP_ASSIGN(notify.events, read_events(*events));
  }
  return notify;
}

Result<std::vector<std::string>> read_variable_names(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(auto names, read_texts(node, "pass_env"));
  for (const std::string& name : names) {
    if (is_environment_name(name)) continue;
    return refuse(node, fmt::format("{} in 'pass_env' is no name for an environment variable",
                                    in_quotes(name)));
  }
  return names;
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
                            {"backend", "shared_path", "env", "pass_env", "modules", "prolog",
                             "template", "launch", "strict", "slurm", "slurmrestd", "notify"}));
  SiteSpec site;
  site.position = position_of(root);
  if (const auto* node = find(root, "backend")) {
    SHARDSWEEP_ASSIGN(site.backend, read_backend(*node));
  }
  if (const auto* node = find(root, "shared_path")) {
    SHARDSWEEP_ASSIGN(site.shared_path, read_absolute(*node, "shared_path"));
  }
  if (const auto* node = find(root, "template")) {
    SHARDSWEEP_ASSIGN(site.job_template, read_absolute(*node, "template"));
  }
  if (const auto* node = find(root, "launch")) {
    SHARDSWEEP_ASSIGN(site.launch, read_launch(*node));
  }
  if (const auto* node = find(root, "strict")) {
    SHARDSWEEP_ASSIGN(site.strict, read_bool(*node, "strict"));
  }
  if (const auto* node = find(root, "pass_env")) {
    SHARDSWEEP_ASSIGN(site.pass_env, read_variable_names(*node));
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
  if (const auto* node = find(root, "slurmrestd")) {
    SHARDSWEEP_ASSIGN(site.rest, read_rest(*node));
  }
  if (const auto* node = find(root, "notify")) {
    SHARDSWEEP_ASSIGN(site.notify, read_notify(*node));
  }
  if (const auto* node = find(root, "slurm")) SHARDSWEEP_TRY(read_slurm(*node, site));
  return site;
}

}  // namespace

Result<SiteSpec> load_site(const std::filesystem::path& file) {
  SHARDSWEEP_ASSIGN(auto text, read_text_file(file, most_yaml_bytes));
  return load_site_text(text, file.string());
}

Result<SiteSpec> load_site_text(std::string_view text, const std::string& name) {
  Sources sources;
  const auto& source = sources.emplace_back(name, std::string(text));
  SHARDSWEEP_ASSIGN(const auto root, parse_yaml(source));
  // A site file of comments alone says nothing, which is not wrong.
  if (root->kind == YamlNode::Kind::null) return SiteSpec{.position = {name, 0, 0}};
  return read_site(*root);
}

}  // namespace shardsweep
