// SPDX-License-Identifier: Apache-2.0
// A preset is a map like any other and is read by the same functions: what is built in can't
// say what a user's file can't. Each value is read by itself; heads, experts and what is
// required are judged only if all values could be read.

#include "config/presets.hpp"

#include "builtin/files.hpp"
#include "config/keys.hpp"
#include "config/sweep_reader.hpp"
#include "published/model_config.hpp"
#include "sweep/model_shape.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "trainer/log_reader.hpp"
#include "yaml/readers.hpp"
#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_block_bytes = 32 << 10;

/// A file as the values that read_trainer_file() takes, each with its place.
class FlatFile {
 public:
  FlatFile(const YamlNode& root, Mistakes& mistakes) : mistakes_(mistakes) {
    for (std::size_t i = 0; i < root.items.size(); ++i)
      add_section(*root.keys[i], *root.items[i]);
  }

  [[nodiscard]] const std::vector<TableValue>& values() const { return values_; }
  [[nodiscard]] const YamlNode& node_of(std::size_t value, Blamed blamed) const {
    const Place& place = places_.at(value);
    if (blamed == Blamed::key) return *place.key;
    return blamed == Blamed::item ? *place.item : *place.value;
  }

 private:
  struct Place {
    const YamlNode* key;
    const YamlNode* value;
    const YamlNode* item;
  };

  void add_section(const YamlNode& key, const YamlNode& node) {
    section_ = key.text;
    const bool is_scalar = node.kind == YamlNode::Kind::scalar;
    add({.text = is_scalar ? text_of(node, section_) : ""}, {&key, &node, &node});
    if (node.kind == YamlNode::Kind::map) add_map(node, false);
    if (node.kind != YamlNode::Kind::list) return;
    for (const auto& item : node.items) {
      if (item->kind == YamlNode::Kind::map)
        add_map(*item, true);
      else
        add({.fresh = true, .text = text_of(*item, section_)},
            {item.get(), item.get(), item.get()});
    }
  }
  void add_map(const YamlNode& map, bool fresh) {
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      const YamlNode& key = *map.keys[i];
      add({.key = key.text, .fresh = fresh, .text = text_of(*map.items[i], key.text)},
          {&key, map.items[i].get(), &map});
      fresh = false;
    }
  }
  void add(TableValue value, Place place) {
    value.line = place.key->line;
    value.section = section_;
    values_.push_back(std::move(value));
    places_.push_back(place);
  }

  /// A list as the words of a sweep file, and a map as lines.
  std::string text_of(const YamlNode& node, std::string_view key) {
    if (node.kind == YamlNode::Kind::list) {
      std::vector<std::string_view> words;
      for (const auto& item : node.items)
        words.emplace_back(item->text);
      return fmt::format("[{}]", fmt::join(words, ", "));
    }
    std::string text;
    if (node.kind == YamlNode::Kind::map) {
      for (std::size_t i = 0; i < node.items.size(); ++i)
        text += fmt::format("{}: {}\n", node.keys[i]->text, text_of(*node.items[i], key));
      return text;
    }
    mistakes_.assign(text, node, read_text(node, key, most_block_bytes, Lines::many));
    return text;
  }

  Mistakes& mistakes_;
  std::string_view section_;
  std::vector<TableValue> values_;
  std::vector<Place> places_;
};

void check_patterns(const FlatFile& flat, Mistakes& mistakes) {
  for (std::size_t i = 0; i < flat.values().size(); ++i) {
    const TableValue& value = flat.values()[i];
    if (value.section != "log" || !value.fresh) continue;
    const std::array<std::string_view, 1> one{value.text};
    const YamlNode& at = flat.node_of(i, Blamed::value);
    if (const auto reader = LogReader::make(one); !reader) mistakes.add(at, reader.error().what);
  }
}

}  // namespace

std::optional<OwnTrainer> read_own_trainer(const YamlNode& root, Mistakes& mistakes) {
  const auto before = mistakes.count();
  const FlatFile flat(root, mistakes);
  std::vector<TrainerMistake> found;
  OwnTrainer own{root.source->name(), read_trainer_file(flat.values(), found), {}};
  own.positions.reserve(own.file.rules.size());
  for (const TrainerRule& rule : own.file.rules)
    own.positions.push_back(position_of(flat.node_of(rule.at, Blamed::item)));
  for (const TrainerMistake& mistake : found) {
    const YamlNode& at = flat.node_of(mistake.at, mistake.blamed);
    mistakes.add(at, mistake.what);
  }
  check_patterns(flat, mistakes);
  // Append to the axes as in a sweep file: as lines after others.
  std::string& axes = own.file.start.axes;
  if (!axes.empty() && !axes.ends_with('\n')) axes += '\n';
  if (own.file.patterns.empty() && own.file.log_of.empty() && mistakes.count() == before)
    mistakes.add(root,
        "missing key 'log' of a trainer's file, the lines that it prints (see 'shardsweep help "
        "patterns'), or 'log_of', a trainer that prints the same");
  if (mistakes.count() != before) return std::nullopt;
  return own;
}

namespace fs = std::filesystem;

/// A copy of what is built in, as an installation has it, is no file of the user's own.
Result<ShippedFile> read_shipped(
    const fs::path& folder, std::string_view root, const fs::path& path) {
  const auto built_in = builtin::text_of((fs::path(root) / path).string());
  const fs::path own = folder / path;
  std::error_code ignored;
  if (fs::exists(own, ignored)) {
    SHARDSWEEP_ASSIGN(auto text, read_text_file(own, most_yaml_bytes));
    if (text != built_in) return ShippedFile{std::move(text), own};
  }
  if (!built_in) {
    return fault(FaultKind::invalid_input, "'{}' is neither built in nor in '{}'", path.string(),
        folder.string());
  }
  return ShippedFile{std::string(*built_in), {}};
}

std::vector<std::string> shipped_names(const fs::path& folder, std::string_view kind) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder / kind, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".yaml") names.insert(entry->path().stem().string());
  }
  const fs::path inside = kind.empty() ? fs::path("sweeps") : fs::path("sweeps") / kind;
  for (const builtin::File& file : builtin::files()) {
    const fs::path path = file.path;
    if (path.parent_path() == inside && path.extension() == ".yaml")
      names.insert(path.stem().string());
  }
  if (kind.empty()) names.erase("causes");  // a table (causes/causes.hpp), and no sweep
  return {names.begin(), names.end()};
}

namespace {

/// The value under a name or its alias; that both are there is noted.
const YamlNode* find_either(
    const YamlNode& map, std::string_view name, std::string_view alias, Mistakes& mistakes) {
  const auto* first = find(map, name);
  const auto* second = alias.empty() ? nullptr : find(map, alias);
  if (first != nullptr && second != nullptr) {
    mistakes.add(*second, "'{}' is another name of '{}', which is set already; keep one of them",
        alias, name);
  }
  return first != nullptr ? first : second;
}

void note_shape(const YamlNode& map, const ModelSpec& model, Mistakes& mistakes) {
  for (const auto& mistake : shape_mistakes(model)) {
    const YamlNode* node = nullptr;
    for (const auto& field : shape_fields) {
      if (field.name != mistake.key) continue;
      node = find(map, field.name);
      if (node == nullptr) node = find(map, field.alias);
    }
    const YamlNode& at = node == nullptr ? map : *node;
    mistakes.add(at, mistake.what);
  }
}

void read_peaks(const YamlNode& node, ClusterSpec& into, Mistakes& mistakes) {
  if (!mistakes.take(node, expect_map(node, "'peak_flops'"))) return;
  check_keys(node, "'peak_flops'", {peak_words.begin(), peak_words.end()}, mistakes);
  for (std::size_t at = 0; at < peak_words.size(); ++at) {
    const auto* peak = find(node, peak_words[at]);
    if (peak == nullptr) continue;
    const auto value =
        mistakes.take(*peak, read_real(*peak, peak_words[at], "FLOP/s such as 312e12", parse_real));
    if (!value) continue;
    if (*value <= 0) mistakes.add(*peak, "a peak of 0; remove the key if the peak is unknown");
    into.peak_flops.at(at) = *value;
  }
}

/// A map's values over `base`; what a cluster needs is there afterwards.
std::optional<ClusterSpec> read_cluster_map(
    const YamlNode& map, ClusterSpec base, Mistakes& mistakes, std::size_t before) {
  read_values(map, base, mistakes, "name");
  if (const auto* node = find(map, "peak_flops")) read_peaks(*node, base, mistakes);
  if (base.gpus_per_node == 0) (void)need(map, "the cluster", "gpus_per_node", mistakes);
  if (base.memory_bytes == 0) (void)need(map, "the cluster", "memory", mistakes);
  if (mistakes.count() > before) return std::nullopt;
  return base;
}

/// True for texts that name a file and no preset: with a folder, or NAME.yaml. Name of a
/// config.json: its folder's, as a model's repository is called.
std::string name_of_model(const fs::path& file) {
  auto stem = file.stem().string();
  if (stem != "config" && stem != "params") return stem;
  const auto folder = fs::absolute(file).parent_path().filename().string();
  return folder.empty() ? "model" : folder;
}

/// Looks beside the file that names it; a flag's path begins in the working folder.
fs::path path_of(const YamlNode& node) {
  fs::path file = node.text;
  if (file.is_absolute() || !node.source->is_file()) return file;
  return fs::path(node.source->name()).parent_path() / file;
}

/// A model of which each layer has experts has no other feed-forward part.
bool has_no_dense_layer(const YamlNode& map) {
  const auto is_there = [&](std::string_view name) {
    return std::any_of(shape_fields.begin(), shape_fields.end(), [&](const ShapeField& field) {
      return field.name == name &&
          (find(map, name) != nullptr || find(map, field.alias) != nullptr);
    });
  };
  return is_there("expert_ffn") && !is_there("dense_layers");
}

}  // namespace

std::optional<ModelSpec> read_model(
    const YamlNode& map, const std::string& name, Mistakes& mistakes) {
  const auto what = "model " + in_quotes(name);
  if (!mistakes.take(map, expect_map(map, what))) return std::nullopt;
  const auto before = mistakes.count();
  std::vector<std::string_view> known;
  visit_fields<ModelSpec>([&](const auto& key) {
    known.push_back(key.name);
    if (!key.facts.alias.empty()) known.push_back(key.facts.alias);
  });
  check_keys(map, what, known, mistakes);
  ModelSpec model;
  model.name = name;
  std::vector<std::string> missing;
  visit_values(model, [&](const auto& key, auto& value) {
    if (const auto* node = find_either(map, key.name, key.facts.alias, mistakes)) {
      read_value(*node, key.name, key.facts, value, mistakes);
    } else if (key.name == "kv_heads") {
      model.kv_heads = model.heads;
    } else if (key.is(Flag::optional) || (key.name == "ffn" && has_no_dense_layer(map))) {
      return;
    } else if (!is_misspelt(map, key.name)) {
      missing.push_back(in_quotes(key.name));
    }
  });
  if (!missing.empty())
    mistakes.add(map, "missing {} {} in {}", missing.size() > 1 ? "keys" : "key",
        fmt::join(missing, ", "), what);
  if (mistakes.count() > before) return std::nullopt;
  if (model.ffn == 0) model.ffn = model.expert_ffn;
  note_shape(map, model, mistakes);
  if (mistakes.count() > before) return std::nullopt;
  return model;
}

std::optional<ClusterSpec> read_cluster(const YamlNode& node, const Presets& presets) {
  auto& mistakes = presets.mistakes();
  if (node.kind == YamlNode::Kind::scalar) return presets.cluster(node);
  if (!mistakes.take(node, expect_map(node, "'cluster'"))) return std::nullopt;
  const auto before = mistakes.count();
  check_keys(node, "'cluster'", keys_of("cluster"), mistakes);
  ClusterSpec base;
  const auto* preset = find(node, "preset");
  if (preset != nullptr) {
    auto read = presets.cluster(*preset);
    // A cluster whose preset is unknown may lack keys: they are not reported.
    base = read ? *std::move(read) : ClusterSpec{.gpus_per_node = 1, .memory_bytes = 1};
  }
  const auto* name = find(node, "name");
  if (name != nullptr) {
    mistakes.assign(base.name, *name, read_name(*name, "cluster.name"));
  } else if (preset == nullptr && mistakes.count() == before) {
    mistakes.add(node, "missing key 'name' in 'cluster'; write 'preset' to start from a preset");
  }
  return read_cluster_map(node, std::move(base), mistakes, before);
}

std::optional<YamlNodePtr> Presets::open(const YamlNode& node, std::string_view kind) const {
  const auto one = kind.substr(0, kind.size() - 1);
  const auto name = mistakes_.take(node, read_name(node, one));
  if (!name) return std::nullopt;
  const auto known = shipped_names(folder_, kind);
  if (std::find(known.begin(), known.end(), *name) == known.end()) {
    const auto meant = nearest(*name, {known.begin(), known.end()});
    std::string hint = fmt::format("; the presets are {}", fmt::join(known, ", "));
    if (!meant.empty()) hint = fmt::format(", did you mean '{}'?", meant);
    mistakes_.add(node, "unknown {} '{}'{}", one, *name, hint);
    return std::nullopt;
  }
  const auto file = std::filesystem::path(kind) / (*name + ".yaml");
  auto found = mistakes_.take(node, read_shipped(folder_, "sweeps", file));
  if (!found) return std::nullopt;
  const auto where = found->file.empty() ? "built-in " + file.string() : found->file.string();
  return parse_yaml(sources_.emplace_back(where, std::move(found->text)), mistakes_);
}

std::optional<ModelSpec> Presets::model(const YamlNode& node) const {
  if (node.text.ends_with(".json")) {
    const auto file = path_of(node);
    const auto text = mistakes_.take(node, read_text_file(file, most_yaml_bytes));
    if (!text) return std::nullopt;
    return mistakes_.take(node, model_of_config(*text, name_of_model(file)));
  }
  if (is_file_name(node.text)) {
    const auto inside = file_root(node, "a model file");
    if (!inside) return std::nullopt;
    return read_model(**inside, name_of_model(node.text), mistakes_);
  }
  const auto root = open(node, "models");
  if (!root) return std::nullopt;
  return read_model(**root, node.text, mistakes_);
}

std::optional<OwnTrainer> Presets::trainer(const YamlNode& node) const {
  YamlNode at = node;  // a name stands for a file of the user's folder
  at.text = own_trainer_file(node.text).string();
  const auto root = file_root(at, "a trainer's file");
  return root ? read_own_trainer(**root, mistakes_) : std::nullopt;
}

std::optional<YamlNodePtr> Presets::file_root(const YamlNode& node, std::string_view what) const {
  const auto file = path_of(node);
  auto text = read_text_file(file, most_yaml_bytes);
  if (!text) {
    mistakes_.add(node, text.error().what);
    return std::nullopt;
  }
  auto root = parse_yaml(sources_.emplace_back(file.string(), *std::move(text)), mistakes_);
  if (!root || !mistakes_.take(**root, expect_map(**root, std::string(what)))) return std::nullopt;
  return root;
}

std::optional<ClusterSpec> Presets::cluster_in_file(const YamlNode& node) const {
  const auto root = file_root(node, "a cluster file");
  if (!root) return std::nullopt;
  const auto* preset = find(**root, "preset");
  if (preset != nullptr && is_file_name(preset->text)) {
    mistakes_.add(*preset, "a cluster file can start from a preset, not from another file");
    return std::nullopt;
  }
  return read_cluster(**root, *this);
}

std::optional<ClusterSpec> Presets::cluster(const YamlNode& node) const {
  if (is_file_name(node.text)) return cluster_in_file(node);
  const auto root = open(node, "clusters");
  const auto what = fmt::format("cluster '{}'", node.text);
  if (!root || !mistakes_.take(**root, expect_map(**root, what))) return std::nullopt;
  const auto before = mistakes_.count();
  // A preset's own file has neither name nor preset.
  auto keys = keys_of("cluster");
  std::erase(keys, "preset");
  std::erase(keys, "name");
  check_keys(**root, what, keys, mistakes_);
  ClusterSpec base;
  base.name = node.text;
  return read_cluster_map(**root, std::move(base), mistakes_, before);
}

}  // namespace shardsweep::config
