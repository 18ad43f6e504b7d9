// SPDX-License-Identifier: Apache-2.0
#include "config/keys.hpp"

#include "text/characters.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/sweep.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>
#include <utility>

namespace shardsweep::config {
namespace {

using Type = KeyType;

struct PlainKey {
  std::string_view section;
  std::string_view key;
  KeyType type;
  std::string_view takes;
  std::string_view default_text;
  std::string_view meaning;
};

// clang-format off
constexpr auto plain_keys = std::to_array<PlainKey>({
    {"", "name", Type::name, "a name", "", "name of the sweep; submitting the same name again edits the sweep"},
    {"", "cluster", Type::special, "a preset, a file or a map", "", "the hardware, see cluster"},
    {"", "models", Type::special, "a map of models", "", "models of this file, see models.NAME"},
    {"", "constants", Type::special, "a map of axes", "", "axes with one value, and the global batch"},
    {"", "axes", Type::special, "a map of axes", "", "axes that vary: their product is the grid"},
    {"", "zip", Type::special, "a list of maps of axes", "", "axes that advance together: [{nodes: [1, 2], tp: [4, 8]}]"},
    {"", "points", Type::special, "a list of maps of axes", "", "hand-picked points beside the grid"},
    {"", "points_from", Type::text, "a CSV file", "", "hand-picked points from a table (CSV); its header names axes and variables"},
    {"", "vars", Type::special, "a map of lists", "", "variables of your own: they reach the ranks' environment, results and filters"},
    {"", "control", Type::special, "a layout, network, auto or off", "auto", "each allocation runs it at its start and end, to compare allocations"},
    {"", "exclude", Type::special, "a list", "", "points to leave out, see exclude"},
    {"", "measure", Type::special, "a map", "", "how a trial is measured, see measure"},
    {"", "runner", Type::special, "a name or a map", "shardbench", "the program to measure, see runner"},
    {"", "env", Type::special, "a map of texts", "", "environment variables of the ranks, with placeholders such as {tp}; one whose name or form says that it is a secret counts as one of 'secrets'"},
    {"", "secrets", Type::special, "a map of texts", "", "environment variables of the ranks whose values are shown and stored nowhere but in a file of yours; an empty text is taken from the shell that submits; trials are known by the names alone"},
    {"", "pass_env", Type::texts, "a list of names", "", "variables of the shell that submits, or their beginnings with a star (WANDB_*), that ranks get as they get 'secrets'; 'resume' and 'rerun' take them anew"},
    {"", "container", Type::special, "a map", "", "the container that ranks run in, see container; a key here wins over the site file's"},
    {"", "classify", Type::special, "a list of maps", "", "the meaning of lines of the ranks' output, see classify"},
    {"", "search", Type::special, "a map", "", "how to find the fastest layout without running all, see search"},
    {"", "prove", Type::special, "one-gpu or off", "off", "first run single ranks of your trainer's fastest predicted layouts on one GPU, to measure their memory"},
    {"", "proof_of", Type::name, "a name", "", "written by 'prove' into the sweep of these ranks: whose layouts they are"},
    {"", "profile", Type::special, "a map", "", "which layouts run once more under a profiler, see profile"},
    {"", "memory_snapshot", Type::boolean, "true or false", "false", "layouts that ran out of memory run once more, up to 4 of each cell, with the option by which their trainer writes PyTorch's memory snapshot; 'show' lists the files"},
    {"", "remeasure", Type::special, "a map", "", "after the sweep has ended, its best layouts are measured again from time to time, see remeasure"},
    {"constants", "global_batch_tokens", Type::count, "a whole number", "", "tokens per train step; a multiple of seq_len"},
    {"constants", "global_batch_size", Type::count, "a whole number", "", "samples per train step, in place of global_batch_tokens"},
    {"cluster", "preset", Type::special, "a preset or a file", "", "values to start from; 'shardsweep presets' lists the presets"},
    {"container", "runtime", Type::special, "pyxis, enroot, apptainer, podman-hpc, shifter or none", "", "the program that starts containers on the nodes"},
    {"container", "image", Type::special, "an image, or a list", "", "a file or a name, as the runtime takes it; a list is an axis named image"},
    {"container", "mounts", Type::texts, "a list of SOURCE:TARGET", "", "folders of the host; ':ro' behind one mounts it for reading only; those of both files hold"},
    {"container", "workdir", Type::text, "an absolute path", "as without a container", "working folder of the ranks inside"},
    {"container", "env", Type::special, "a map of texts", "", "variables inside of the container; 'env' of the sweep wins"},
    {"container", "options", Type::texts, "a list of texts", "", "further options of the runtime, in front of the image"},
    {"runner", "name", Type::name, "a name", "shardbench", "trainer for predictions; also the name in results if the program reports none"},
    {"runner", "program", Type::text, "a program", "", "beside the sweep file, beside shardsweep or on PATH; default: shardbench-cuda on clusters with a gpu, else shardbench-cpu"},
    {"runner", "args", Type::texts, "a list of texts", "", "further flags of the runner; changing them makes all trials new"},
    {"runner", "profile", Type::text, "own, or a trainer", "own", "shardbench does what that trainer does, see runner/README.md; another one makes all trials new"},
    {"runner", "argv", Type::texts, "a list of texts", "", "command line of a trainer as it is, with placeholders: see 'help placeholders'"},
    {"runner", "log", Type::text, "a trainer or a file", "", "the trainer whose log 'argv' prints, see 'shardsweep trainers', or a trainer's file of yours (./mine.yaml); needed unless 'patterns' are given"},
    {"runner", "patterns", Type::texts, "a list of texts", "", "lines of its log with {key} for a number: \"iteration {iteration} took {step_ms} ms\""},
    {"runner", "files", Type::special, "a map of names to files", "", "written into each attempt's folder with placeholders filled in; a value of several lines is the text itself"},
    {"runner", "launch", Type::special, "rank or node", "rank", "one process for each rank, or one on each node (torchrun)"},
    {"runner", "cwd", Type::text, "a folder", "the sweep file's", "where 'argv' runs; \"{attempt_dir}\" is the attempt's folder"},
    {"runner", "version", Type::text, "a text", "unknown", "version of the trainer; another one makes all trials new"},
    {"runner", "unchecked", Type::texts, "a list of names", "none", "truth checks of its log to leave out: first_loss, parameters, version, axes"},
    {"runner", "told", Type::texts, "a list of axes and parts of a model", "none", "axes of one value, and parts of a model, that the program sets by itself: they need not stand in 'argv' or 'files'"},
    {"runner", "gives_up", Type::boolean, "true or false", "as it says itself", "whether it takes --give-up-above; submitting fills it in"},
    {"runner", "snapshot", Type::special, "none, copy or git", "none", "run from a copy of the tree, made when the sweep is submitted: all of it, or what git tracks with its changes; another tree makes all trials new"},
    {"runner", "snapshot_hash", Type::text, "a hash", "", "of that copy; submitting fills it in"},
    {"runner", "snapshot_root", Type::text, "a folder", "", "that it was made of; submitting fills it in"},
    {"runner", "hashes", Type::special, "a map of programs to hashes", "", "what its own programs hold; submitting fills it in, and with another one nothing is started"},
    {"remeasure", "every", Type::special, "a duration", "1d", "time from one measurement to the next; needs a daemon that is kept running, or 'tick' from cron"},
    {"remeasure", "on", Type::special, "time, runner or image", "time", "runner: only if the tree of 'runner: {snapshot: git}' has changed, and then the program as it was and as it is run in pairs; image: only if the file of the container's image is another one"},
    {"remeasure", "layouts", Type::special, "best N", "best 3", "how many layouts of each cell"},
    {"profile", "finalists", Type::special, "nsys or off", "off", "when a cell's ranking is done its winner runs once more, its rank 0 under 'nsys profile'; that run is not ranked, and 'show' lists the report"},
    {"exclude", "when", Type::text, "an SQL expression", "", "expression over axes, variables and the model's shape: \"tp > 8\"; a text in place of the map means this key"},
    {"exclude", "why", Type::text, "a text", "", "shown with the points that it leaves out"},
});
// clang-format on

std::string_view takes_of(KeyType type) {
  switch (type) {
    case Type::name:
      return "a name";
    case Type::count:
      return "a whole number";
    case Type::bytes:
      return "a size";
    case Type::rate:
      return "a rate";
    case Type::latency:
      return "a latency";
    case Type::real:
      return "a number";
    case Type::share:
    case Type::percent:
      return "a share";
    case Type::boolean:
      return "true or false";
    case Type::texts:
      return "a list of texts";
    case Type::text:
    case Type::pattern:
    case Type::lines:
    case Type::special:
      break;
  }
  return "a text";
}

/// Default in the reference's form: 0 and empty values are not mentioned.
template <class V>
std::string default_of(const KeyFacts& facts, const V& value) {
  if (facts.otherwise) return std::string(*facts.otherwise);
  if constexpr (std::is_same_v<V, bool>) return value ? "true" : "false";
  if constexpr (std::is_arithmetic_v<V>) {
    if (value == V{}) return "";
    return facts.type == Type::percent ? fmt::format("{:g}%", 100.0 * static_cast<double>(value))
                                       : fmt::format("{}", value);
  }
  return "";
}

class KeyTable {
 public:
  KeyTable& plain(std::string_view section) {
    for (const auto& row : plain_keys) {
      if (row.section == section)
        all_.push_back({section, row.key, row.type, std::string(row.takes),
            std::string(row.default_text), std::string(row.meaning)});
    }
    return *this;
  }
  template <class T>
  KeyTable& described_by(std::string_view section) {
    const T defaults;
    visit_values(defaults, [&](const auto& key, const auto& value) {
      const KeyFacts& facts = key.facts;
      const auto also = facts.alias.empty() ? "" : fmt::format("; also {}", facts.alias);
      all_.push_back({section, key.name, facts.type,
          std::string(facts.takes.empty() ? takes_of(facts.type) : facts.takes),
          default_of(facts, value), fmt::format("{}{}", facts.meaning, also)});
    });
    return *this;
  }
  [[nodiscard]] std::vector<KeyInfo> take() { return std::move(all_); }

 private:
  std::vector<KeyInfo> all_;
};

const std::vector<KeyInfo>& sweep_table() {
  static const auto table = KeyTable()
                                .plain("")
                                .plain("constants")
                                .plain("cluster")
                                .described_by<ClusterSpec>("cluster")
                                .described_by<ModelSpec>("models.NAME")
                                .plain("container")
                                .described_by<Measure>("measure")
                                .plain("runner")
                                .plain("remeasure")
                                .plain("profile")
                                .plain("exclude")
                                .described_by<Cause>("classify")
                                .described_by<SearchSettings>("search")
                                .described_by<SearchUntil>("search.until")
                                .described_by<SearchRules>("search.rules")
                                .take();
  return table;
}

const std::vector<KeyInfo>& site_table() {
  static const auto table = KeyTable()
                                .described_by<SiteSpec>("")
                                .described_by<RestSettings>("slurmrestd")
                                .described_by<NotifySettings>("notify")
                                .take();
  return table;
}

std::vector<std::string_view> keys_in(std::span<const KeyInfo> table, std::string_view section) {
  std::vector<std::string_view> keys;
  for (const auto& each : table) {
    if (each.section == section) keys.push_back(each.key);
  }
  return keys;
}

Range range_of(std::string_view name, const KeyFacts& facts) {
  return {facts.least, facts.most, name};
}

Result<double> read_number(const YamlNode& node, std::string_view name, KeyType type) {
  if (type == Type::rate) return read_real(node, name, "a rate such as 450GB/s", parse_bandwidth);
  if (type == Type::latency) return read_real(node, name, "a latency such as 5us", parse_latency);
  if (type == Type::percent) return read_share(node, name);
  const bool share = type == Type::share;
  SHARDSWEEP_ASSIGN(const double value,
      read_real(node, name, share ? "a share such as 0.6" : "a number", parse_real));
  if (share && (value <= 0 || value > 1)) {
    return refuse(node, "'{}' is a share above 0 and at most 1; got '{}'", name, node.text);
  }
  if (value <= 0) return refuse(node, "'{}' must be above 0; remove it for no limit", name);
  return value;
}

}  // namespace

std::span<const KeyInfo> sweep_keys() {
  return sweep_table();
}

std::vector<std::string_view> keys_of(std::string_view section) {
  return keys_in(sweep_table(), section);
}

std::span<const KeyInfo> site_keys() {
  return site_table();
}

std::vector<std::string_view> site_keys_of(std::string_view section) {
  return keys_in(site_table(), section);
}

Result<double> read_share(const YamlNode& node, std::string_view key) {
  return read_real(node, key, "a share such as 1%", parse_share);
}

void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts, double& into,
    Mistakes& mistakes) {
  mistakes.assign(into, node, read_number(node, name, facts.type));
}

void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::int64_t& into, Mistakes& mistakes) {
  const Range range = range_of(name, facts);
  mistakes.assign(
      into, node, facts.type == Type::bytes ? read_bytes(node, range) : read_count(node, range));
}

void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::int32_t& into, Mistakes& mistakes) {
  const auto count = mistakes.take(node, read_count(node, range_of(name, facts)));
  if (count) into = static_cast<std::int32_t>(*count);
}

void read_value(const YamlNode& node, std::string_view name, const KeyFacts& /*facts*/, bool& into,
    Mistakes& mistakes) {
  mistakes.assign(into, node, read_bool(node, name));
}

void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::string& into, Mistakes& mistakes) {
  const auto most = facts.most > 0 ? static_cast<std::size_t>(facts.most) : most_text_bytes;
  mistakes.assign(
      into, node, facts.type == Type::name ? read_name(node, name) : read_text(node, name, most));
}

void read_value(const YamlNode& node, std::string_view name, const KeyFacts& /*facts*/,
    std::vector<std::string>& into, Mistakes& mistakes) {
  mistakes.assign(into, node, read_texts(node, name));
}

std::string value_text(KeyType /*type*/, const std::string& value) {
  return yaml_text(value);
}

std::string value_text(KeyType /*type*/, const std::vector<std::string>& value) {
  std::vector<std::string> texts;
  texts.reserve(value.size());
  std::transform(value.begin(), value.end(), std::back_inserter(texts), yaml_text);
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace shardsweep::config
