// SPDX-License-Identifier: Apache-2.0
// The grid of a sweep file: what is constant, what varies, what varies together. What an axis
// says is read first; whether axes fit together is judged only if all of them could be read, so
// that one slip is told once. An axis stands in one place, and the first one is named beside
// the second.
#include "config/sweep_reader.hpp"
#include "sweep/model_shape.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::string_view batch_tokens = "global_batch_tokens";
constexpr std::string_view batch_samples = "global_batch_size";
constexpr std::int64_t most_batch = std::int64_t{1} << 40;

const AxisInfo& axis_named(std::string_view name) {
  return *find_axis(name);
}

/// Place of an earlier value, for messages: "(line 4)", or the flag's name.
std::string where(const YamlNode& node) {
  return node.source->is_file() ? fmt::format("line {}", node.line) : node.source->name();
}

/// Suggests numbers of tokens that would have been right.
std::string nearest_multiples(const YamlNode& node, std::int64_t tokens, std::int64_t seq_len) {
  const auto below = tokens / seq_len * seq_len;
  auto hint = below > 0 ? fmt::format("write {} or {}", below, below + seq_len)
                        : fmt::format("write {} at least", seq_len);
  const auto& text = node.text;
  const auto binary = text.substr(0, text.size() - 1) +
      (text.back() == 'k' ? std::string("K") : text.substr(text.size() - 1)) + "i";
  const auto meant = parse_count(binary, {1, most_batch, batch_tokens});
  if (meant && *meant % seq_len == 0) hint += fmt::format(", or '{}', which is {}", binary, *meant);
  return hint + binary_length_meant(seq_len, tokens);
}

}  // namespace

bool SweepReader::has_global_batch() const {
  return batch_ != nullptr;
}

void SweepReader::read_grid(const YamlNode& root) {
  if (const auto* constants = find(root, "constants")) read_constants(*constants);
  if (const auto* node = find(root, "axes")) read_axes(*node);
  if (const auto* zip = find(root, "zip")) read_zips(*zip);
  // Missing keys can be reported only if all others could be read.
  if (mistakes_.none()) mistakes_.take(root, check_auto());
  fill_defaults();
  if (const auto* vars = find(root, "vars")) read_vars(*vars);
  if (const auto* container = find(root, "container")) read_image_axis(*container);
  if (const auto* points = find(root, "points")) read_points(*points);
  if (const auto* file = find(root, "points_from")) read_points_from(*file);
  if (const auto* node = find(root, "control")) read_control(*node);
  if (!mistakes_.none()) return;
  mistakes_.take(root, check_world(root));
  mistakes_.take(batch_ != nullptr ? *batch_ : root, check_tokens());
}

Result<void> SweepReader::place(const AxisEntry& entry, std::string_view section) {
  const auto [first, is_new] = placed_.emplace(entry.axis, Placement{section, entry.key});
  if (is_new) return {};
  const auto& before = first->second;
  return refuse(*entry.key, "'{}' is set under '{}' ({}) and here under '{}'; keep one of them",
      entry.axis->name, before.section, where(*before.key), section);
}

void SweepReader::read_constants(const YamlNode& map) {
  for (const auto& entry :
      axis_entries(map, "'constants'", {batch_tokens, batch_samples}, mistakes_)) {
    if (!mistakes_.take(*entry.key, place(entry, "constants"))) continue;
    auto setting = read_axis_setting(*entry.axis, *entry.value, shelf_, mistakes_);
    if (setting) sweep_.constants.push_back(*std::move(setting));
  }
  read_global_batch(map);
}

void SweepReader::read_global_batch(const YamlNode& map) {
  const auto* tokens = find(map, batch_tokens);
  const auto* samples = find(map, batch_samples);
  if (tokens != nullptr && samples != nullptr) {
    mistakes_.add(
        *samples, "both '{}' and '{}' are set; keep one of them", batch_tokens, batch_samples);
  }
  if (tokens != nullptr) {
    batch_ = tokens;
    mistakes_.assign(
        sweep_.global_batch_tokens, *tokens, read_count(*tokens, {1, most_batch, batch_tokens}));
  }
  if (samples != nullptr) {
    batch_ = samples;
    mistakes_.assign(sweep_.global_batch_samples, *samples,
        read_count(*samples, {1, most_batch, batch_samples}));
  }
}

void SweepReader::read_axes(const YamlNode& map) {
  for (const auto& key : map.keys) {
    if (key->text != batch_tokens && key->text != batch_samples) continue;
    mistakes_.add(*key, "'{}' cannot vary; move it under 'constants'", key->text);
  }
  for (const auto& entry : axis_entries(map, "'axes'", {batch_tokens, batch_samples}, mistakes_)) {
    if (!mistakes_.take(*entry.key, place(entry, "axes"))) continue;
    auto values = read_axis_values(*entry.axis, *entry.value, shelf_, mistakes_);
    if (values) sweep_.axes.push_back(*std::move(values));
  }
}

void SweepReader::read_zips(const YamlNode& list) {
  if (!mistakes_.take(list, expect_list(list, "'zip' ('- {tp: [1, 2], pp: [4, 2]}')"))) return;
  for (const auto& map : list.items)
    read_zip(*map);
}

void SweepReader::read_zip(const YamlNode& map) {
  const auto before = mistakes_.count();
  const auto entries = axis_entries(map, "a map of 'zip'", {}, mistakes_);
  ZipGroup group;
  for (const auto& entry : entries)
    read_zip_axis(entry, group);
  if (mistakes_.count() > before) return;
  if (entries.empty()) {
    mistakes_.add(map, "this map of 'zip' names no axes");
    return;
  }
  mistakes_.take(map, check_zip_rows(group, entries.front()));
  sweep_.zips.push_back(std::move(group));
}

void SweepReader::read_zip_axis(const AxisEntry& entry, ZipGroup& group) {
  const auto& node = *entry.value;
  const auto name = entry.axis->name;
  if (!mistakes_.take(*entry.key, place(entry, "zip")) ||
      !mistakes_.take(node, expect_list(node, fmt::format("'{}' in 'zip'", name))))
    return;
  auto values = read_axis_values(*entry.axis, node, shelf_, mistakes_, Repeats::allowed);
  if (!values) return;
  if (values->automatic) {
    mistakes_.add(
        node, "'{}: auto' cannot stand in 'zip'; move it under 'axes' or 'constants'", name);
    return;
  }
  const auto& first = group.axes.empty() ? *values : group.axes.front();
  if (values->values.size() != first.values.size()) {
    mistakes_.add(node,
        "'{}' has {} values and '{}' has {}; axes of one map of 'zip' need the same number", name,
        values->values.size(), first.axis->name, first.values.size());
    return;
  }
  group.axes.push_back(*std::move(values));
}

Result<void> SweepReader::check_zip_rows(const ZipGroup& group, const AxisEntry& first) const {
  std::set<std::vector<std::int64_t>> rows;
  for (std::size_t row = 0; row < group.axes.front().values.size(); ++row) {
    std::vector<std::int64_t> values;
    for (const auto& axis : group.axes)
      values.push_back(axis.values[row]);
    if (rows.insert(std::move(values)).second) continue;
    return refuse(*first.value->items[row],
        "combination {} of this map of 'zip' repeats an earlier one; remove this value from each "
        "of its axes",
        row + 1);
  }
  return {};
}

void SweepReader::fill_defaults() {
  for (const auto& axis : axes()) {
    const bool has_none =
        axis.kind == AxisKind::model || axis.name == "nodes" || axis.name == "gpus";
    if (has_none || placed_.count(&axis) != 0) continue;
    const bool automatic = axis.name == "dp" || (axis.name == "grad_accum" && has_global_batch());
    AxisValues values{&axis, automatic, {}};
    if (!automatic) values.values.push_back(axis.default_value);
    sweep_.constants.push_back(std::move(values));
  }
}

Result<void> SweepReader::check_auto() const {
  const auto& grad_accum = axis_named("grad_accum");
  const auto placed = placed_.find(&grad_accum);
  if (placed == placed_.end() || has_global_batch()) return {};
  const auto automatic = [&](const AxisValues& values) {
    return values.axis == &grad_accum && values.automatic;
  };
  if (std::none_of(sweep_.axes.begin(), sweep_.axes.end(), automatic) &&
      std::none_of(sweep_.constants.begin(), sweep_.constants.end(), automatic))
    return {};
  return refuse(*placed->second.key, "'grad_accum: auto' needs '{}' or '{}' under 'constants'",
      batch_tokens, batch_samples);
}

Result<void> SweepReader::check_world(const YamlNode& root) const {
  const auto nodes = placed_.find(&axis_named("nodes"));
  const auto gpus = placed_.find(&axis_named("gpus"));
  if (nodes != placed_.end() && gpus != placed_.end()) {
    return refuse(*gpus->second.key,
        "both 'nodes' ({}) and 'gpus' are set; use 'nodes' for whole nodes, or 'gpus' for part of "
        "one",
        where(*nodes->second.key));
  }
  if (!sweep_.has_product()) return {};
  if (placed_.count(&axis_named("model")) == 0)
    return refuse(root, "no model; set 'model' under 'constants' or 'axes'");
  if (nodes == placed_.end() && gpus == placed_.end()) {
    return refuse(root, "no nodes and no GPUs; set 'nodes' or 'gpus' under 'constants' or 'axes'");
  }
  return {};
}

Result<void> SweepReader::check_tokens() const {
  if (!sweep_.global_batch_tokens) return {};
  const auto tokens = *sweep_.global_batch_tokens;
  const auto& seq_len = axis_named("seq_len");
  std::set<std::int64_t> lengths;
  const auto collect = [&](const std::vector<AxisValues>& settings) {
    for (const auto& each : settings) {
      if (each.axis == &seq_len) lengths.insert(each.values.begin(), each.values.end());
    }
  };
  collect(sweep_.constants);
  collect(sweep_.axes);
  for (const auto& zip : sweep_.zips)
    collect(zip.axes);
  for (const auto& point : sweep_.points)
    collect(point.settings);
  for (const auto length : lengths) {
    if (tokens % length == 0) continue;
    return refuse(*batch_, "{} is {} tokens, not a multiple of seq_len {}; {}",
        in_quotes(batch_->text), tokens, length, nearest_multiples(*batch_, tokens, length));
  }
  return {};
}

}  // namespace shardsweep::config
