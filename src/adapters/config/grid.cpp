// SPDX-License-Identifier: Apache-2.0
// The grid of a sweep file: what is constant, what varies, what varies together.
#include "adapters/config/readers.hpp"
#include "adapters/config/sweep_reader.hpp"
#include "adapters/config/text.hpp"

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

/// Where a hand has been before: "(line 4)", or the flag's name.
std::string where(const YamlNode& node) {
  return node.source->is_file() ? fmt::format("line {}", node.line) : node.source->name();
}

/// Which number of tokens would have been right.
std::string nearest_multiples(const YamlNode& node, std::int64_t tokens, std::int64_t seq_len) {
  const auto below = tokens / seq_len * seq_len;
  auto hint = below > 0 ? fmt::format("nearest are {} and {}", below, below + seq_len)
                        : fmt::format("the least is {}", seq_len);
  const auto& text = node.text;
  const auto binary = text.substr(0, text.size() - 1) +
                      (text.back() == 'k' ? std::string("K") : text.substr(text.size() - 1)) +
                      "i";
  const auto meant = parse_count(binary, {1, most_batch, batch_tokens});
  if (meant && *meant % seq_len == 0) hint += fmt::format(", and '{}' is {}", binary, *meant);
  return hint;
}

}  // namespace

bool SweepReader::has_global_batch() const {
  return batch_ != nullptr;
}

Result<void> SweepReader::read_grid(const YamlNode& root) {
  if (const auto* constants = find(root, "constants")) {
    SHARDSWEEP_TRY(read_constants(*constants));
  }
  if (const auto* node = find(root, "axes")) SHARDSWEEP_TRY(read_axes(*node));
  if (const auto* zip = find(root, "zip")) SHARDSWEEP_TRY(read_zips(*zip));
  SHARDSWEEP_TRY(check_auto());
  fill_defaults();
  if (const auto* vars = find(root, "vars")) SHARDSWEEP_TRY(read_vars(*vars));
  if (const auto* points = find(root, "points")) SHARDSWEEP_TRY(read_points(*points));
  if (const auto* file = find(root, "points_from")) SHARDSWEEP_TRY(read_points_from(*file));
  if (const auto* node = find(root, "control")) SHARDSWEEP_TRY(read_control(*node));
  SHARDSWEEP_TRY(check_world(root));
  return check_tokens();
}

Result<void> SweepReader::place(const AxisEntry& entry, std::string_view section) {
  const auto [first, is_new] = placed_.emplace(entry.axis, Placement{section, entry.key});
  if (is_new) return {};
  const auto& before = first->second;
  return refuse(*entry.key,
                fmt::format("'{}' stands under '{}' ({}) and here under '{}': keep "
                            "one of them",
                            entry.axis->name, before.section, where(*before.key), section));
}

Result<void> SweepReader::read_constants(const YamlNode& map) {
  SHARDSWEEP_ASSIGN(const auto entries,
                    axis_entries(map, "'constants'", {batch_tokens, batch_samples}));
  for (const auto& entry : entries) {
    SHARDSWEEP_TRY(place(entry, "constants"));
    SHARDSWEEP_ASSIGN(sweep_.constants.emplace_back(),
                      read_axis_setting(*entry.axis, *entry.value, shelf_));
  }
  return read_global_batch(map);
}

Result<void> SweepReader::read_global_batch(const YamlNode& map) {
  const auto* tokens = find(map, batch_tokens);
  const auto* samples = find(map, batch_samples);
  if (tokens != nullptr && samples != nullptr) {
    return refuse(*samples, fmt::format("both '{}' and '{}' are set: keep one of them",
                                        batch_tokens, batch_samples));
  }
  if (tokens != nullptr) {
    batch_ = tokens;
    SHARDSWEEP_ASSIGN(sweep_.global_batch_tokens,
                      read_count(*tokens, {1, most_batch, batch_tokens}));
  }
  if (samples != nullptr) {
    batch_ = samples;
    SHARDSWEEP_ASSIGN(sweep_.global_batch_samples,
                      read_count(*samples, {1, most_batch, batch_samples}));
  }
  return {};
}

Result<void> SweepReader::read_axes(const YamlNode& map) {
  for (const auto& key : map.keys) {
    if (key->text != batch_tokens && key->text != batch_samples) continue;
    return refuse(*key, fmt::format("'{}' can't vary: it stands under 'constants'", key->text));
  }
  SHARDSWEEP_ASSIGN(const auto entries, axis_entries(map, "'axes'", {}));
  for (const auto& entry : entries) {
    SHARDSWEEP_TRY(place(entry, "axes"));
    SHARDSWEEP_ASSIGN(sweep_.axes.emplace_back(),
                      read_axis_values(*entry.axis, *entry.value, shelf_));
  }
  return {};
}

Result<void> SweepReader::read_zips(const YamlNode& list) {
  SHARDSWEEP_TRY(expect_list(list, "'zip' ('- {tp: [1, 2], pp: [4, 2]}')"));
  for (const auto& map : list.items) {
    SHARDSWEEP_ASSIGN(sweep_.zips.emplace_back(), read_zip(*map));
  }
  return {};
}

Result<ZipGroup> SweepReader::read_zip(const YamlNode& map) {
  SHARDSWEEP_ASSIGN(const auto entries, axis_entries(map, "a map of 'zip'", {}));
  if (entries.empty()) return refuse(map, "a map of 'zip' without axes");
  ZipGroup group;
  for (const auto& entry : entries) {
    SHARDSWEEP_TRY(place(entry, "zip"));
    SHARDSWEEP_TRY(expect_list(*entry.value, fmt::format("'{}' in 'zip'", entry.axis->name)));
    SHARDSWEEP_ASSIGN(auto values,
                      read_axis_values(*entry.axis, *entry.value, shelf_, Repeats::allowed));
    if (values.automatic) {
      return refuse(*entry.value, fmt::format("'{}: auto' stands under 'axes' or 'constants', "
                                              "not in 'zip'",
                                              entry.axis->name));
    }
    const auto& first = group.axes.empty() ? values : group.axes.front();
    if (values.values.size() != first.values.size()) {
      return refuse(*entry.value,
                    fmt::format("'{}' has {} values and '{}' has {}: axes of one map of 'zip' "
                                "advance together",
                                entry.axis->name, values.values.size(), first.axis->name,
                                first.values.size()));
    }
    group.axes.push_back(std::move(values));
  }
  std::set<std::vector<std::int64_t>> rows;
  for (std::size_t row = 0; row < group.axes.front().values.size(); ++row) {
    std::vector<std::int64_t> values;
    for (const auto& axis : group.axes)
      values.push_back(axis.values[row]);
    if (rows.insert(std::move(values)).second) continue;
    return refuse(
        *entries.front().value->items[row],
        fmt::format("the {}. values of this map of 'zip' stood there before", row + 1));
  }
  return group;
}

void SweepReader::fill_defaults() {
  for (const auto& axis : axes()) {
    const bool has_none =
        axis.kind == AxisKind::model || axis.name == "nodes" || axis.name == "gpus";
    if (has_none || placed_.count(&axis) != 0) continue;
    const bool automatic =
        axis.name == "dp" || (axis.name == "grad_accum" && has_global_batch());
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
  return refuse(*placed->second.key,
                fmt::format("'grad_accum: auto' needs '{}' or '{}' under 'constants'",
                            batch_tokens, batch_samples));
}

Result<void> SweepReader::check_world(const YamlNode& root) const {
  const auto nodes = placed_.find(&axis_named("nodes"));
  const auto gpus = placed_.find(&axis_named("gpus"));
  if (nodes != placed_.end() && gpus != placed_.end()) {
    return refuse(
        *gpus->second.key,
        fmt::format("both 'nodes' ({}) and 'gpus' are set: whole nodes, or 'gpus' for "
                    "worlds smaller than a node",
                    where(*nodes->second.key)));
  }
  if (!sweep_.has_product()) return {};
  if (placed_.count(&axis_named("model")) == 0)
    return refuse(root, "no model: set 'model' under 'constants' or 'axes'");
  if (nodes == placed_.end() && gpus == placed_.end()) {
    return refuse(root, "no world: set 'nodes' or 'gpus' under 'constants' or 'axes'");
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
    return refuse(*batch_, fmt::format("{} is {} tokens, no multiple of seq_len {}: {}",
                                       in_quotes(batch_->text), tokens, length,
                                       nearest_multiples(*batch_, tokens, length)));
  }
  return {};
}

}  // namespace shardsweep::config
