// SPDX-License-Identifier: Apache-2.0
// Hand-picked points, in the sweep file or in a CSV beside it, and the free axes. A point says
// what differs from the grid's single values, and is kept once it is complete and its world
// adds up. A free axis is a column of the database and a name in expressions: so names that
// mean something there already are refused when the file is read, not when somebody asks.
#include "config/container.hpp"
#include "config/sweep_reader.hpp"
#include "sweep/launch.hpp"
#include "text/characters.hpp"
#include "text/secrets.hpp"
#include "yaml/csv.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/metric.hpp>
#include <shardsweep/result_columns.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_var_bytes = 256;
constexpr std::size_t most_vars = 64;

// clang-format off
// A var is a column beside those of the results and these, and a word in the SQL of `exclude` and
// `--where`.
constexpr std::array other_columns{
    "allocation", "attempt", "cancelled_by", "charged", "constraint", "contaminated",
    "counted_attempt", "counted_code", "counted_mark", "counted_speed", "detail", "elsewhere",
    "expandable", "final_avoid", "final_of", "final_resolve", "final_sets", "fragmented",
    "global_batch_size", "global_batch_tokens", "hash", "hidden_size", "id", "identity",
    "implausible", "name", "params", "prior", "prior_cause", "rowid", "slug", "tied_embeddings",
    "verdict", "version", "why", "world"};
constexpr std::array sql_words{
    "add", "all", "alter", "and", "as", "autoincrement", "between", "by", "case", "cast",
    "check", "collate", "commit", "create", "cross", "default", "deferrable", "delete",
    "distinct", "drop", "else", "end", "escape", "except", "exists", "false", "filter",
    "foreign", "from", "glob", "group", "having", "in", "index", "inner", "insert",
    "intersect", "into", "is", "isnull", "join", "left", "like", "limit", "match", "not",
    "nothing", "notnull", "null", "on", "or", "order", "outer", "over", "primary",
    "references", "regexp", "returning", "select", "set", "table", "then", "to",
    "transaction", "true", "union", "unique", "update", "using", "values", "when", "where",
    "with"};
// clang-format on

bool is_taken(std::string_view name) {
  return std::find(other_columns.begin(), other_columns.end(), name) != other_columns.end() ||
      std::any_of(result_columns.begin(), result_columns.end(),
          [&](const ViewColumn& column) { return column.name == name; }) ||
      find_metric(name) != nullptr;
}

/// Advice on a name in capitals, as variables of the environment have them.
std::string written_small(std::string_view name) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(),
      [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (small == name || !is_var_name(small)) return {};
  return fmt::format("; '{}' reaches the trainer as {}", small, variable_of(small));
}

Result<void> check_var_name(const YamlNode& key) {
  const auto& name = key.text;
  if (const auto* axis = find_axis(name)) {
    return refuse(key, "{} is the axis '{}'; move it under 'axes' or 'constants'", in_quotes(name),
        axis->name);
  }
  if (!is_var_name(name)) {
    return refuse(key,
        "{} is not a valid name for a variable; use lower-case letters, digits and '_', begin with "
        "a letter, at most 64{}",
        in_quotes(name), written_small(name));
  }
  if (is_taken(name))
    return refuse(key, "{} is a column of the results; choose another name", in_quotes(name));
  if (std::find(sql_words.begin(), sql_words.end(), name) != sql_words.end()) {
    return refuse(key, "{} is a word of SQL, the language of 'exclude'; choose another name",
        in_quotes(name));
  }
  // A var is an environment variable of the ranks, in capitals.
  const auto variable = variable_of(name);
  const auto reason = owned_variable(variable);
  if (!reason.empty())
    return refuse(
        key, "{} would set {}; {}; choose another name", in_quotes(name), variable, reason);
  return {};
}

}  // namespace

bool is_reserved_name(std::string_view name) {
  return is_taken(name) || find_axis(name) != nullptr ||
      std::find(sql_words.begin(), sql_words.end(), name) != sql_words.end();
}

namespace {

/// One value, as a list of one.
std::vector<const YamlNode*> items_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::list) return {&node};
  std::vector<const YamlNode*> items;
  for (const auto& item : node.items)
    items.push_back(item.get());
  return items;
}

/// A row of a CSV as the map that it stands for.
YamlNodePtr point_of_row(
    const Source& source, const std::vector<YamlNode>& header, const std::vector<YamlNode>& row) {
  auto map = std::make_shared<YamlNode>();
  map->kind = YamlNode::Kind::map;
  map->source = &source;
  map->line = row.front().line;
  map->column = row.front().column;
  for (std::size_t at = 0; at < row.size(); ++at) {
    // An empty cell sets nothing.
    if (row[at].kind == YamlNode::Kind::null) continue;
    map->keys.push_back(std::make_shared<YamlNode>(header[at]));
    map->items.push_back(std::make_shared<YamlNode>(row[at]));
  }
  return map;
}

const AxisValues* find_setting(const std::vector<AxisValues>& settings, std::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
      [&](const AxisValues& each) { return each.axis->name == name; });
  return found == settings.end() ? nullptr : &*found;
}

}  // namespace

void SweepReader::read_vars(const YamlNode& map) {
  if (!mistakes_.take(map, expect_map(map, "'vars'"))) return;
  if (map.keys.size() > most_vars) {
    const auto& key = *map.keys[most_vars];
    mistakes_.add(key, "more than {} variables", most_vars);
    return;
  }
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    mistakes_.take(*map.keys[at], check_var_name(*map.keys[at]));
    sweep_.vars.push_back(read_var(*map.keys[at], *map.items[at]));
  }
}

/// A list of images is a variable of that name.
void SweepReader::read_image_axis(const YamlNode& map) {
  const YamlNode* images = map.kind == YamlNode::Kind::map ? find(map, "image") : nullptr;
  if (images == nullptr || images->kind != YamlNode::Kind::list) return;
  const auto names = var_names();
  if (std::find(names.begin(), names.end(), image_variable) != names.end()) {
    mistakes_.add(*images, "'image' is under 'vars' too; write the images once, here or there");
    return;
  }
  YamlNode key;
  key.text = image_variable;
  VarValues var = read_var(key, *images);
  for (std::size_t at = 0; at < images->items.size() && at < var.values.size(); ++at) {
    const YamlNode& item = *images->items[at];
    mistakes_.assign(var.values[at], item, read_image(item, runtime_in(map), folder_));
  }
  sweep_.vars.push_back(std::move(var));
}

/// Reads a var. A var with mistakes has no values: points may name it without a further message.
VarValues SweepReader::read_var(const YamlNode& key, const YamlNode& value) {
  const auto before = mistakes_.count();
  VarValues var;
  var.name = key.text;
  std::set<std::string> seen;
  for (const auto* item : items_of(value)) {
    auto text = mistakes_.take(*item, read_text(*item, var.name, most_var_bytes));
    if (!text) continue;
    if (!secret_by_form(*text).empty())
      mistakes_.add(*item,
          "a value of '{}' has a password or a token in it, and results show all values; write it "
          "under 'secrets'",
          var.name);
    if (!seen.insert(*text).second)
      mistakes_.add(*item, "{} appears twice in '{}'", in_quotes(*text), var.name);
    var.values.push_back(*std::move(text));
  }
  if (value.kind == YamlNode::Kind::list && value.items.empty())
    mistakes_.add(value, "'{}' has no values; give it one, or remove it", var.name);
  if (mistakes_.count() > before) var.values.clear();
  return var;
}

std::vector<std::string_view> SweepReader::var_names() const {
  std::vector<std::string_view> names;
  for (const auto& var : sweep_.vars)
    names.emplace_back(var.name);
  return names;
}

Result<std::pair<std::string, std::string>> SweepReader::read_point_var(
    const YamlNode& key, const YamlNode& value) const {
  SHARDSWEEP_ASSIGN(auto text, read_text(value, key.text, most_var_bytes));
  for (const auto& var : sweep_.vars) {
    if (var.name != key.text) continue;
    if (var.values.empty()) break;
    if (std::find(var.values.begin(), var.values.end(), text) != var.values.end()) break;
    return refuse(
        value, "{} is not a value of '{}' under 'vars'; add it there", in_quotes(text), key.text);
  }
  return std::pair(key.text, std::move(text));
}

void SweepReader::read_points(const YamlNode& list) {
  if (!mistakes_.take(list, expect_list(list, "'points' ('- {nodes: 8, tp: 4}')"))) return;
  for (const auto& map : list.items)
    read_point(*map);
}

PartialPoint SweepReader::read_settings(const YamlNode& map, std::string_view what) {
  const auto names = var_names();
  PartialPoint point;
  point.position = position_of(map);
  for (const auto& entry : axis_entries(map, what, names, mistakes_)) {
    auto setting = read_axis_setting(*entry.axis, *entry.value, shelf_, mistakes_);
    if (setting) point.settings.push_back(*std::move(setting));
  }
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    if (std::find(names.begin(), names.end(), map.keys[at]->text) == names.end()) continue;
    auto var = mistakes_.take(*map.items[at], read_point_var(*map.keys[at], *map.items[at]));
    if (var) point.vars.push_back(*std::move(var));
  }
  return point;
}

void SweepReader::read_point(const YamlNode& map) {
  auto point = read_settings(map, "a point");
  inherit_single_values(point);
  // Inherited values are known only if all of them could be read.
  if (mistakes_.none()) mistakes_.take(map, check_world_of(point, map));
  if (mistakes_.none()) mistakes_.take(map, complete_point(point, map));
  sweep_.points.push_back(std::move(point));
}

Result<void> SweepReader::check_control(const PartialPoint& point, const YamlNode& node) const {
  for (const auto& setting : point.settings) {
    if (setting.axis->name == "nodes" || setting.axis->name == "gpus") {
      return refuse(
          node, "'control' uses all nodes of an allocation; remove '{}'", setting.axis->name);
    }
  }
  return {};
}

void SweepReader::read_control(const YamlNode& node) {
  const auto is_word = [&](std::string_view word) {
    return node.kind == YamlNode::Kind::scalar && node.text == word;
  };
  if (is_word("off") || is_word("auto") || is_word("network")) return;
  if (node.kind != YamlNode::Kind::map) {
    mistakes_.add(node,
        "'control' takes off, auto, network or a layout such as {{tp: 2, micro_batch: 1}}, got {}",
        describe(node));
    return;
  }
  auto point = read_settings(node, "'control'");
  mistakes_.take(node, check_control(point, node));
  if (mistakes_.none()) mistakes_.take(node, complete_point(point, node));
  // A control needs only the first value of each var.
  for (const auto& var : sweep_.vars) {
    const bool set = std::any_of(point.vars.begin(), point.vars.end(),
        [&](const auto& each) { return each.first == var.name; });
    if (!set && !var.values.empty()) point.vars.emplace_back(var.name, var.values.front());
  }
  sweep_.control.layout = std::move(point);
}

/// The network between nodes with GPUs is probed by default, if the runner can do so.
void SweepReader::settle_network_probe(const YamlNode* control) {
  const bool scalar = control != nullptr && control->kind == YamlNode::Kind::scalar;
  if (scalar && control->text == "off") return;
  const bool able = !sweep_.cluster.gpu.empty() && sweep_.runner.is_shardbench();
  if (scalar && control->text == "network")
    sweep_.control.network_from = 1;
  else if (able)
    sweep_.control.network_from = 2;
}

/// An axis with one value counts as a constant. `nodes` of a point replaces `gpus`, and the other
/// way round.
void SweepReader::inherit_single_values(PartialPoint& point) const {
  const auto set = [&](std::string_view name) {
    return find_setting(point.settings, name) != nullptr;
  };
  const bool has_world = set("nodes") || set("gpus");
  const auto inherit = [&](const std::vector<AxisValues>& axes) {
    for (const auto& axis : axes) {
      const auto name = axis.axis->name;
      const bool is_world = name == "nodes" || name == "gpus";
      if (axis.values.size() != 1 || set(name) || (is_world && has_world)) continue;
      point.settings.push_back(axis);
    }
  };
  inherit(sweep_.axes);
  for (const auto& zip : sweep_.zips)
    inherit(zip.axes);
}

Result<void> SweepReader::check_world_of(const PartialPoint& point, const YamlNode& at) const {
  const auto given = [&](std::string_view name) {
    return find_setting(point.settings, name) != nullptr ||
        find_setting(sweep_.constants, name) != nullptr;
  };
  if (find_setting(point.settings, "nodes") != nullptr &&
      find_setting(point.settings, "gpus") != nullptr)
    return refuse(at, "this point sets both 'nodes' and 'gpus'; keep one of them");
  if (!given("nodes") && !given("gpus"))
    return refuse(at, "this point has no nodes and no GPUs; set 'nodes' or 'gpus'");
  return {};
}

Result<void> SweepReader::complete_point(PartialPoint& point, const YamlNode& at) const {
  const auto set = [&](std::string_view name) {
    return find_setting(point.settings, name) != nullptr;
  };
  const auto constant = [&](std::string_view name) {
    return find_setting(sweep_.constants, name) != nullptr;
  };
  if (!set("model") && !constant("model"))
    return refuse(at, "this point has no model; set 'model'");
  const auto* grad_accum = find_setting(point.settings, "grad_accum");
  if (grad_accum != nullptr && grad_accum->automatic && !has_global_batch()) {
    return refuse(at,
        "'grad_accum: auto' needs 'global_batch_tokens' or 'global_batch_size' under 'constants'");
  }
  // Where an axis varies, a hand-picked point has no constant to fall back on.
  if (!set("dp") && !constant("dp")) point.settings.push_back({find_axis("dp"), true, {}});
  if (!set("grad_accum") && !constant("grad_accum") && has_global_batch())
    point.settings.push_back({find_axis("grad_accum"), true, {}});
  return {};
}

void SweepReader::read_points_from(const YamlNode& node) {
  const auto file = mistakes_.take(node, read_text(node, "points_from"));
  if (!file) return;
  if (file->empty()) {
    mistakes_.add(node, "expected a file name for 'points_from'");
    return;
  }
  const auto path = folder_ / *file;
  auto text = read_text_file(path, most_yaml_bytes);
  if (!text) {
    mistakes_.add(node, text.error().what);
    return;
  }
  const auto& source = sources_.emplace_back(path.string(), *std::move(text));
  const auto rows = parse_csv(source);
  if (!rows) {
    mistakes_.add(source, 0, 0, rows.error());
    return;
  }
  if (rows->empty()) {
    mistakes_.add(
        source, 0, 0, source.fault_at(0, 0, "has no header line; name axes and variables in it"));
    return;
  }
  for (std::size_t row = 1; row < rows->size(); ++row)
    read_point(*point_of_row(source, rows->front(), (*rows)[row]));
}

}  // namespace shardsweep::config
