// SPDX-License-Identifier: Apache-2.0
#include "adapters/config/presets.hpp"

#include "adapters/config/readers.hpp"
#include "adapters/config/text.hpp"
#include "domain/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;
constexpr std::int64_t most_memory = std::int64_t{1} << 50;
constexpr int most_gpus_per_node = 1024;

constexpr std::array<ModelField, 6> shape{{
    {"layers", "num_hidden_layers", &ModelSpec::layers, 1 << 14},
    {"hidden", "hidden_size", &ModelSpec::hidden, 1 << 20},
    {"ffn", "intermediate_size", &ModelSpec::ffn, 1 << 22},
    {"heads", "num_attention_heads", &ModelSpec::heads, 1 << 16},
    {"kv_heads", "num_key_value_heads", &ModelSpec::kv_heads, 1 << 16},
    {"vocab", "vocab_size", &ModelSpec::vocab, 1 << 26},
}};
constexpr std::string_view tied = "tied_embeddings";
constexpr std::string_view tied_alias = "tie_word_embeddings";

constexpr std::array<ClusterField, 10> rates{{
    {"memory_bandwidth", &ClusterSpec::memory_bandwidth, RateKind::bandwidth,
     "of device memory"},
    {"intra_node_bandwidth", &ClusterSpec::intra_node_bandwidth, RateKind::bandwidth,
     "of a GPU's links inside the node, one direction"},
    {"inter_node_bandwidth", &ClusterSpec::inter_node_bandwidth, RateKind::bandwidth,
     "of a GPU's network adapter, one direction"},
    {"inter_node_group_bandwidth", &ClusterSpec::inter_node_group_bandwidth,
     RateKind::bandwidth, "that a ring over several adapters of a node reaches, per GPU"},
    {"intra_node_latency", &ClusterSpec::intra_node_latency_us, RateKind::latency,
     "of a small message inside the node"},
    {"inter_node_latency", &ClusterSpec::inter_node_latency_us, RateKind::latency,
     "of a small message between nodes"},
    {"gemm_efficiency", &ClusterSpec::gemm_efficiency, RateKind::share,
     "of the peak, in a layer's matrix products"},
    {"attention_efficiency", &ClusterSpec::attention_efficiency, RateKind::share,
     "of the peak, in flash attention"},
    {"intra_node_efficiency", &ClusterSpec::intra_node_efficiency, RateKind::share,
     "of intra_node_bandwidth, in collectives"},
    {"inter_node_efficiency", &ClusterSpec::inter_node_efficiency, RateKind::share,
     "of inter_node_bandwidth, in collectives"},
}};

/// The value under a name or its alias; a fault where both are there.
Result<const YamlNode*> find_either(const YamlNode& map, std::string_view name,
                                    std::string_view alias) {
  const auto* first = find(map, name);
  const auto* second = find(map, alias);
  if (first != nullptr && second != nullptr) {
    return refuse(*second, fmt::format("'{}' is another name of '{}', which is set already",
                                       alias, name));
  }
  return first != nullptr ? first : second;
}

Result<void> check_divides(const YamlNode& map, std::string_view a, std::int64_t of,
                           std::string_view b, std::int64_t by) {
  if (of % by == 0) return {};
  return refuse(map, fmt::format("'{}' ({}) is no multiple of '{}' ({})", a, of, b, by));
}

Result<void> read_peaks(const YamlNode& node, ClusterSpec& into) {
  SHARDSWEEP_TRY(expect_map(node, "'peak_flops'"));
  SHARDSWEEP_TRY(check_keys(node, "'peak_flops'", {dtype_words.begin(), dtype_words.end()}));
  for (std::size_t at = 0; at < dtype_words.size(); ++at) {
    const auto* peak = find(node, dtype_words[at]);
    if (peak == nullptr) continue;
    SHARDSWEEP_ASSIGN(const auto value,
                      read_real(*peak, dtype_words[at], "FLOP/s such as 312e12", parse_real));
    if (value <= 0) return refuse(*peak, "a peak of 0: leave it out where it is unknown");
    into.peak_flops.at(at) = value;
  }
  return {};
}

Result<double> read_rate(const YamlNode& node, const ClusterField& field) {
  switch (field.kind) {
    case RateKind::bandwidth:
      return read_real(node, field.name, "a rate such as 450GB/s", parse_bandwidth);
    case RateKind::latency:
      return read_real(node, field.name, "a latency such as 5us", parse_latency);
    case RateKind::share:
      break;
  }
  SHARDSWEEP_ASSIGN(const double share,
                    read_real(node, field.name, "a share such as 0.6", parse_real));
  if (share <= 0 || share > 1) {
    return refuse(node, fmt::format("'{}' is a share, above 0 and at most 1, got '{}'",
                                    field.name, node.text));
  }
  return share;
}

Result<void> read_rates(const YamlNode& map, ClusterSpec& into) {
  for (const auto& field : rates) {
    const auto* node = find(map, field.name);
    if (node == nullptr) continue;
    SHARDSWEEP_ASSIGN(into.*field.member, read_rate(*node, field));
  }
  return {};
}

Result<void> read_hardware(const YamlNode& map, ClusterSpec& into) {
  if (const auto* node = find(map, "gpu")) {
    SHARDSWEEP_ASSIGN(into.gpu, read_text(*node, "gpu", 128));
  }
  if (const auto* node = find(map, "gpus_per_node")) {
    SHARDSWEEP_ASSIGN(const auto count,
                      read_count(*node, {1, most_gpus_per_node, "gpus_per_node"}));
    into.gpus_per_node = static_cast<int>(count);
  }
  if (const auto* node = find(map, "memory")) {
    SHARDSWEEP_ASSIGN(into.memory_bytes, read_bytes(*node, {mebibyte, most_memory, "memory"}));
  }
  if (const auto* node = find(map, "peak_flops")) SHARDSWEEP_TRY(read_peaks(*node, into));
  SHARDSWEEP_TRY(read_rates(map, into));
  if (const auto* node = find(map, "this_machine")) {
    SHARDSWEEP_ASSIGN(into.this_machine, read_bool(*node, "this_machine"));
  }
  if (const auto* node = find(map, "shared_host")) {
    SHARDSWEEP_ASSIGN(into.shared_host, read_bool(*node, "shared_host"));
  }
  return {};
}

/// A map's values over `base`; what a cluster can't be without is there afterwards.
Result<ClusterSpec> read_cluster_map(const YamlNode& map, ClusterSpec base) {
  SHARDSWEEP_TRY(read_hardware(map, base));
  if (base.gpus_per_node == 0) return refuse(map, "missing key 'gpus_per_node' in the cluster");
  if (base.memory_bytes == 0) return refuse(map, "missing key 'memory' in the cluster");
  return base;
}

/// As a file is written and no preset's name: with a folder, or NAME.yaml.
bool is_cluster_file(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml");
}

std::vector<std::string_view> cluster_keys() {
  std::vector<std::string_view> keys{"gpu",        "gpus_per_node", "memory",
                                     "peak_flops", "this_machine",  "shared_host"};
  for (const auto& field : rates)
    keys.push_back(field.name);
  return keys;
}

}  // namespace

std::span<const ModelField> model_fields() {
  return shape;
}

std::span<const ClusterField> cluster_fields() {
  return rates;
}

Result<ModelSpec> read_model(const YamlNode& map, const std::string& name) {
  const auto what = fmt::format("model '{}'", name);
  SHARDSWEEP_TRY(expect_map(map, what));
  std::vector<std::string_view> known{tied, tied_alias};
  for (const auto& field : shape)
    known.insert(known.end(), {field.name, field.alias});
  SHARDSWEEP_TRY(check_keys(map, what, known));
  ModelSpec model;
  model.name = name;
  for (const auto& field : shape) {
    SHARDSWEEP_ASSIGN(const auto* node, find_either(map, field.name, field.alias));
    if (node == nullptr && field.name == "kv_heads") {
      model.kv_heads = model.heads;
      continue;
    }
    if (node == nullptr)
      return refuse(map, fmt::format("missing key '{}' in {}", field.name, what));
    SHARDSWEEP_ASSIGN(model.*field.member, read_count(*node, {1, field.most, field.name}));
  }
  SHARDSWEEP_ASSIGN(const auto* node, find_either(map, tied, tied_alias));
  if (node != nullptr) {
    SHARDSWEEP_ASSIGN(model.tied_embeddings, read_bool(*node, tied));
  }
  SHARDSWEEP_TRY(check_divides(map, "heads", model.heads, "kv_heads", model.kv_heads));
  // RoPE turns pairs.
  SHARDSWEEP_TRY(check_divides(map, "hidden", model.hidden, "2 x heads", 2 * model.heads));
  return model;
}

Result<ClusterSpec> read_cluster(const YamlNode& node, const Presets& presets) {
  if (node.kind == YamlNode::Kind::scalar) return presets.cluster(node);
  SHARDSWEEP_TRY(expect_map(node, "'cluster'"));
  auto keys = cluster_keys();
  keys.insert(keys.end(), {"preset", "name"});
  SHARDSWEEP_TRY(check_keys(node, "'cluster'", keys));
  ClusterSpec base;
  const auto* preset = find(node, "preset");
  if (preset != nullptr) {
    SHARDSWEEP_ASSIGN(base, presets.cluster(*preset));
  }
  const auto* name = find(node, "name");
  if (name != nullptr) {
    SHARDSWEEP_ASSIGN(base.name, read_name(*name, "cluster.name"));
  } else if (preset == nullptr) {
    return refuse(node, "missing key 'name' in 'cluster' (or 'preset', to begin from one)");
  }
  return read_cluster_map(node, std::move(base));
}

std::vector<std::string> Presets::names(std::string_view kind) const {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_ / kind, error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".yaml") found.push_back(entry->path().stem().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<YamlNodePtr> Presets::open(const YamlNode& node, std::string_view kind) const {
  const auto one = kind.substr(0, kind.size() - 1);
  SHARDSWEEP_ASSIGN(const auto name, read_name(node, one));
  const auto known = names(kind);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const auto meant = nearest(name, {known.begin(), known.end()});
    std::string hint = fmt::format("; there are: {}", fmt::join(known, ", "));
    if (known.empty()) hint = fmt::format("; no presets in '{}'", (folder_ / kind).string());
    if (!meant.empty()) hint = fmt::format(", did you mean '{}'?", meant);
    return refuse(node, fmt::format("unknown {} '{}'{}", one, name, hint));
  }
  const auto file = folder_ / kind / (name + ".yaml");
  SHARDSWEEP_ASSIGN(auto text, read_text_file(file, most_yaml_bytes));
  return parse_yaml(sources_.emplace_back(file.string(), std::move(text)));
}

Result<ModelSpec> Presets::model(const YamlNode& node) const {
  SHARDSWEEP_ASSIGN(const auto root, open(node, "models"));
  return read_model(*root, node.text);
}

/// Beside the file that names it; of a flag, from here.
Result<ClusterSpec> Presets::cluster_in_file(const YamlNode& node) const {
  std::filesystem::path file = node.text;
  if (file.is_relative() && node.source->is_file())
    file = std::filesystem::path(node.source->name()).parent_path() / file;
  auto text = read_text_file(file, most_yaml_bytes);
  if (!text) return refuse(node, text.error().what);
  SHARDSWEEP_ASSIGN(const auto root,
                    parse_yaml(sources_.emplace_back(file.string(), *std::move(text))));
  SHARDSWEEP_TRY(expect_map(*root, "a file that is a cluster"));
  const auto* preset = find(*root, "preset");
  if (preset != nullptr && is_cluster_file(preset->text))
    return refuse(*preset, "a cluster in a file begins from a preset, not from another file");
  return read_cluster(*root, *this);
}

Result<ClusterSpec> Presets::cluster(const YamlNode& node) const {
  if (is_cluster_file(node.text)) return cluster_in_file(node);
  SHARDSWEEP_ASSIGN(const auto root, open(node, "clusters"));
  const auto what = fmt::format("cluster '{}'", node.text);
  SHARDSWEEP_TRY(expect_map(*root, what));
  SHARDSWEEP_TRY(check_keys(*root, what, cluster_keys()));
  ClusterSpec base;
  base.name = node.text;
  return read_cluster_map(*root, std::move(base));
}

}  // namespace shardsweep::config
