// SPDX-License-Identifier: Apache-2.0
// The site file: how this user reaches the cluster. Options of sbatch pass through as they are,
// but for those by which a job of ours is recognised, watched and ended: these are refused,
// each with its reason, as a job that can't be found again would run without anybody who ends
// it.
#include "builtin/files.hpp"
#include "config/container.hpp"
#include "config/keys.hpp"
#include "config/own_causes.hpp"
#include "config/sweep_reader.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"
#include "yaml/readers.hpp"
#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using namespace config;

constexpr std::string_view the_site_file = "the site file";

/// Options by which jobs are recognised, watched and ended.
struct OwnedOption {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<OwnedOption, 24> owned_options{{
    {"job-name", "shardsweep finds its jobs by their names"},
    {"output", "the job's output goes into the allocation's folder"},
    {"error", "the job's output goes into the allocation's folder"},
    {"array", "write 'lane: {array: N}' in the sweep file"},
    {"requeue", "shardsweep decides about retries"},
    {"no-requeue", "it is always set; shardsweep decides about retries"},
    {"parsable", "it is always set; the job's id is read from the answer"},
    {"wrap", "the job script is rendered from a template"},
    {"export", "the environment is set by 'env'"},
    {"export-file", "the environment is set by 'env'"},
    {"signal", "shardsweep sets it; the lead expects that signal before the end"},
    {"wait", "shardsweep watches its jobs itself"},
    {"chdir", "the allocation's own folder is the working directory"},
    {"propagate", "limits of the login node must not reach a compute node"},
    {"nodes", "the layout sets the number"},
    {"ntasks", "one node agent runs on every node"},
    {"ntasks-per-node", "one node agent runs on every node"},
    {"no-kill", "it is always set; the lead must outlive a failed node"},
    {"open-mode", "it is always append"},
    {"hold", "write 'strict: true' beside 'slurm'"},
    {"help", "it submits nothing"},
    {"test-only", "it submits nothing"},
    {"clusters", "shardsweep looks for jobs only in slurm.conf's own cluster"},
    {"cluster", "shardsweep looks for jobs only in slurm.conf's own cluster"},
}};

/// Long options of sbatch that jobs are given, of Slurm 20 to 25 and of pyxis: what may have
/// been meant if sbatch can't be asked. Sites have others, by plugins.
constexpr std::string_view known_options =
    "account acctg-freq batch bb bbf begin cluster-constraint comment consolidate-segments "
    "constraint container container-id container-image container-mounts container-name "
    "container-workdir container-writable contiguous core-spec cores-per-socket cpu-freq "
    "cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution exclude exclusive "
    "extra extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket "
    "gpus-per-task gres gres-flags hint ignore-pbs input kill-on-invalid-dep licenses mail-type "
    "mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice nodefile "
    "nodelist ntasks-per-core ntasks-per-gpu ntasks-per-socket oom-kill-step overcommit "
    "oversubscribe partition power prefer priority profile qos reboot reservation resv-ports "
    "segment sockets-per-node spread-job stepmgr switches thread-spec threads-per-core time "
    "time-min tmp tres-bind tres-per-task uid use-min-nodes wait-all-nodes wckey";

bool is_option_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return text.size() > 1 && text.size() <= 64 && text.front() >= 'a' && text.front() <= 'z' &&
      std::all_of(text.begin(), text.end(), fits);
}

/// A name that sbatch does not know ends each job; here its file and line are known.
Result<void> check_with_sbatch(const YamlNode& key, const AskSbatch& ask) {
  const OptionAnswer answer = ask(key.text);
  if (answer.takes.value_or(false)) return {};
  const bool asked = answer.takes.has_value();
  const std::vector<std::string_view> known = asked
      ? std::vector<std::string_view>(answer.listed.begin(), answer.listed.end())
      : split(known_options, ' ');
  if (!asked && std::find(known.begin(), known.end(), key.text) != known.end()) return {};
  const std::string hint = did_you_mean(key.text, known);
  if (!asked && hint.empty()) return {};
  return refuse(key, "'{}' is no option of {}{}", key.text,
      asked ? "this machine's sbatch" : "sbatch",
      hint.empty() ? "; 'sbatch --help' lists them" : hint);
}

Result<void> check_option_name(const YamlNode& key, const AskSbatch& ask) {
  auto plain = key.text.substr(std::min(key.text.find_first_not_of('-'), key.text.size()));
  std::replace(plain.begin(), plain.end(), '_', '-');
  if (!is_option_name(key.text)) {
    const auto hint = is_option_name(plain) ? fmt::format("write '{}'", plain)
                                            : std::string("use lower-case letters, digits and '-'");
    return refuse(key, "{} is not a long option of sbatch; {}", in_quotes(key.text), hint);
  }
  for (const auto& option : owned_options) {
    if (option.name == key.text)
      return refuse(key, "'{}' cannot be set; {}", key.text, option.reason);
  }
  return ask ? check_with_sbatch(key, ask) : Result<void>();
}

/// An option's argument; empty for one that takes none, which a file says by `true`.
Result<std::string> read_argument(const YamlNode& key, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && !node.quoted) {
    if (node.text == "true") return std::string();
    if (node.text == "false") {
      return refuse(node, "'{}: false' sets nothing; remove it", key.text);
    }
  }
  SHARDSWEEP_ASSIGN(auto text, read_text(node, key.text));
  if (text.empty())
    return refuse(node, "'{}' has no value; write true for an option without one", key.text);
  return text;
}

/// "1", "2-8" and "9-": node counts.
Result<SlurmValue> read_node_range(const YamlNode& key) {
  const auto wrong = [&key] {
    return refuse(
        key, "{} is not a range of node counts; write '4', '2-8' or '9-'", in_quotes(key.text));
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
std::vector<SlurmValue> read_option(const YamlNode& key, const YamlNode& node, Mistakes& mistakes) {
  std::vector<SlurmValue> values;
  if (node.kind != YamlNode::Kind::map) {
    auto value = mistakes.take(node, read_argument(key, node));
    if (value) values.push_back({.value = *std::move(value)});
    return values;
  }
  for (std::size_t at = 0; at < node.keys.size(); ++at) {
    const YamlNode& range = *node.keys[at];
    auto value = mistakes.take(range, read_node_range(range));
    if (!value) continue;
    for (const SlurmValue& other : values) {
      if (value->from <= other.to && other.from <= value->to)
        mistakes.add(range, "{} overlaps with a range before it", in_quotes(range.text));
    }
    mistakes.assign(value->value, *node.items[at], read_argument(key, *node.items[at]));
    values.push_back(*std::move(value));
  }
  std::sort(values.begin(), values.end(),
      [](const SlurmValue& a, const SlurmValue& b) { return a.from < b.from; });
  if (node.keys.empty())
    mistakes.add(node, "'{}' has no values; give it one, or remove it", key.text);
  return values;
}

void read_slurm(const YamlNode& map, SiteSpec& into, const AskSbatch& ask, Mistakes& mistakes) {
  if (!mistakes.take(map, expect_map(map, "'slurm'"))) return;
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    const YamlNode& key = *map.keys[at];
    const YamlNode& value = *map.items[at];
    if (!mistakes.take(key, check_option_name(key, ask))) continue;
    // Defaults of the template that a site may switch off.
    const bool is_given =
        key.text == "gpus-per-node" || key.text == "exclusive" || key.text == "mem";
    if (is_given && value.kind == YamlNode::Kind::scalar && !value.quoted &&
        value.text == "false") {
      into.slurm_without.push_back(key.text);
      continue;
    }
    into.slurm[key.text] = read_option(key, value, mistakes);
  }
  std::sort(into.slurm_without.begin(), into.slurm_without.end());
}

/// The value that a scalar names.
template <Worded Enum>
std::optional<Enum> word_in(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) return std::nullopt;
  return from_word<Enum>(node.text);
}

Result<LaunchMode> read_launch(const YamlNode& node) {
  const auto mode = word_in<LaunchMode>(node);
  if (mode && *mode != LaunchMode::local) return *mode;
  return refuse(node, "expected agents or srun for 'launch', got {}", describe(node));
}

Result<std::string> read_absolute(const YamlNode& node, std::string_view key) {
  auto path = read_text(node, key);
  if (path && (path->empty() || path->front() != '/')) {
    return refuse(
        node, "{} is not absolute; write the path from '/', as the nodes see it", in_quotes(*path));
  }
  return path;
}

/// A file of the user's own, or a template that is built in.
Result<std::string> read_template(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(auto name, read_text(node, "template"));
  const bool own = !name.empty() && name.front() == '/';
  if (own || builtin::text_of("templates/" + name)) return name;
  return refuse(node,
      "{} is neither an absolute path nor one of the templates lane.sbatch and lane-sbcast.sbatch",
      in_quotes(name));
}

/// The token that is sent to slurmrestd lets its reader act as this user.
Result<std::string> read_rest_url(const YamlNode& node, bool plain_http) {
  SHARDSWEEP_ASSIGN(auto url, read_text(node, "url"));
  const bool known =
      url.rfind("http://", 0) == 0 || url.rfind("https://", 0) == 0 || url.rfind("unix:/", 0) == 0;
  if (!known) {
    return refuse(node,
        "{} is not an address of slurmrestd; write http://host:port, https://host or unix:/path",
        in_quotes(url));
  }
  if (!plain_http && url.rfind("unix:", 0) != 0 && !keeps_secrets(url)) {
    return refuse(node,
        "{} would carry your Slurm token unencrypted to another machine; write https://host, or "
        "add 'plain_http: true'",
        in_quotes(url));
  }
  return url;
}

RestSettings read_rest(const YamlNode& node, Mistakes& mistakes) {
  constexpr std::string_view what = "'slurmrestd'";
  RestSettings rest;
  if (!mistakes.take(node, expect_map(node, what))) return rest;
  check_keys(node, what, site_keys_of("slurmrestd"), mistakes);
  read_values(node, rest, mistakes);
  if (const YamlNode* url = need(node, what, "url", mistakes))
    mistakes.assign(rest.url, *url, read_rest_url(*url, rest.plain_http));
  if (const auto* file = find(node, "token_file"))
    mistakes.assign(rest.token_file, *file, read_absolute(*file, "token_file"));
  if (const auto* file = find(node, "ca_file"))
    mistakes.assign(rest.ca_file, *file, read_absolute(*file, "ca_file"));
  return rest;
}

Result<std::vector<NotifyEvent>> read_events(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(const auto words, read_texts(node, "events"));
  std::vector<NotifyEvent> events;
  for (const std::string& word : words) {
    const auto* found = std::find(notify_words.begin(), notify_words.end(), word);
    if (found == notify_words.end()) {
      return refuse(node,
          "unknown event {} in 'events'; write sweep_ended, stalled, node_quarantined or blind",
          in_quotes(word));
    }
    events.push_back(static_cast<NotifyEvent>(found - notify_words.begin()));
  }
  return events;
}

Result<std::string> read_notify_url(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(auto url, read_text(node, "url"));
  if (!keeps_secrets(url)) {
    return refuse(node,
        "{} is neither https nor http on this machine; others could read the notices",
        in_quotes(url));
  }
  return url;
}

NotifySettings read_notify(const YamlNode& node, Mistakes& mistakes) {
  constexpr std::string_view what = "'notify'";
  NotifySettings notify;
  if (!mistakes.take(node, expect_map(node, what))) return notify;
  const auto before = mistakes.count();
  check_keys(node, what, site_keys_of("notify"), mistakes);
  if (const auto* url = find(node, "url")) mistakes.assign(notify.url, *url, read_notify_url(*url));
  if (const auto* file = find(node, "url_file"))
    mistakes.assign(notify.url_file, *file, read_absolute(*file, "url_file"));
  if (mistakes.count() == before && notify.url.empty() == notify.url_file.empty())
    mistakes.add(node, "'notify' needs one of url and url_file; use url_file for a secret address");
  if (const auto* file = find(node, "header_file"))
    mistakes.assign(notify.header_file, *file, read_absolute(*file, "header_file"));
  notify.events = {NotifyEvent::sweep_ended, NotifyEvent::stalled, NotifyEvent::node_quarantined,
      NotifyEvent::blind, NotifyEvent::regression};
  if (const auto* events = find(node, "events"))
    mistakes.assign(notify.events, *events, read_events(*events));
  return notify;
}

/// Reads a container whose image is the same for all sweeps: several images belong into a sweep.
ContainerSpec read_site_container(const YamlNode& node, Mistakes& mistakes) {
  ContainerSpec container = read_container(node, mistakes, {});
  const auto* image = node.kind == YamlNode::Kind::map ? find(node, "image") : nullptr;
  if (image != nullptr && image->kind == YamlNode::Kind::list)
    mistakes.add(*image, "a site file has one image; a list of them belongs to a sweep file");
  return container;
}

Result<Backend> read_backend(const YamlNode& node) {
  const auto backend = word_in<Backend>(node);
  if (backend == Backend::local || backend == Backend::slurm) return *backend;
  return refuse(node, "expected local or slurm for 'backend', got {}", describe(node));
}

SiteSpec read_site(const YamlNode& root, const AskSbatch& ask, Mistakes& mistakes) {
  SiteSpec site;
  if (!mistakes.take(root, expect_map(root, the_site_file))) return site;
  check_keys(root, the_site_file, site_keys_of(""), mistakes);
  site.position = position_of(root);
  const auto read = [&](std::string_view key, auto& into, auto reader) {
    if (const auto* node = find(root, key)) mistakes.assign(into, *node, reader(*node));
  };
  read_values(root, site, mistakes);
  read("backend", site.backend, read_backend);
  read("template", site.job_template, read_template);
  read("launch", site.launch, read_launch);
  read("pass_env", site.pass_env,
      [](const YamlNode& node) { return read_passed_names(node, Stars::none); });
  if (const auto* node = find(root, "env")) site.env = read_environment(*node, mistakes);
  if (const auto* node = find(root, "container"))
    site.container = read_site_container(*node, mistakes);
  if (const auto* node = find(root, "classify")) site.rules = read_own_causes(*node, mistakes);
  if (const auto* node = find(root, "slurmrestd")) site.rest = read_rest(*node, mistakes);
  if (const auto* node = find(root, "notify")) site.notify = read_notify(*node, mistakes);
  const bool by_commands = find(root, "slurmrestd") == nullptr;
  if (const auto* node = find(root, "slurm"))
    read_slurm(*node, site, by_commands ? ask : AskSbatch(), mistakes);
  return site;
}

}  // namespace

std::string config::belongs_to_sbatch(std::string_view key, std::string_view where) {
  return fmt::format(
      "{} is no key of {}; options of sbatch belong under 'slurm' in the site file, "
      "~/.config/shardsweep/site.yaml, which 'shardsweep init' writes",
      in_quotes(key), where);
}

std::string config::belongs_to_the_site(std::string_view key) {
  // Options of sbatch that resemble none of our keys: 'batch' and 'time' mean something else.
  constexpr auto of_sbatch_alone =
      std::to_array<std::string_view>({"account", "partition", "qos", "gres", "constraint",
          "reservation", "nodelist", "exclusive", "mail-user", "mail-type", "cpus-per-task",
          "gpus-per-node", "gpus-per-task", "mem", "mem-per-cpu", "licenses", "wckey"});
  if (std::find(of_sbatch_alone.begin(), of_sbatch_alone.end(), key) != of_sbatch_alone.end())
    return belongs_to_sbatch(key, "a sweep");
  const auto keys = site_keys_of("");
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) return {};
  return fmt::format(
      "'{}' belongs in the site file, ~/.config/shardsweep/site.yaml, and not in a sweep; "
      "'shardsweep init' writes it",
      key);
}

Result<SiteSpec> load_site(const std::filesystem::path& file, const AskSbatch& ask) {
  SHARDSWEEP_ASSIGN(auto text, read_text_file(file, most_yaml_bytes));
  return load_site_text(text, file.string(), ask);
}

Result<SiteSpec> load_site_text(
    std::string_view text, const std::string& name, const AskSbatch& ask) {
  Sources sources;
  const auto& source = sources.emplace_back(name, std::string(text));
  Mistakes mistakes(source);
  const auto root = parse_yaml(source, mistakes);
  // A site file of comments alone says nothing, which is not wrong.
  if (root && (*root)->kind == YamlNode::Kind::null) return SiteSpec{.position = {name, 0, 0}};
  SiteSpec site;
  if (root) site = read_site(**root, ask, mistakes);
  SHARDSWEEP_TRY(mistakes.verdict());
  return site;
}

}  // namespace shardsweep
