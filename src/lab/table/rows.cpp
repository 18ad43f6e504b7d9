// SPDX-License-Identifier: Apache-2.0
#include "table/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace shardsweep::recorded {

SweepBuilder::SweepBuilder(const CsvTable& table, const RecordedOptions& options)
    : table_(table), options_(options) {
  sweep_.runs.reserve(table.rows());
}

void SweepBuilder::add_labels(const std::set<std::string, std::less<>>& known) {
  for (std::size_t at = 0; at < table_.columns().size(); ++at) {
    const auto& name = table_.columns()[at];
    if (known.contains(name)) continue;
    sweep_.labels.push_back({name, {}});
    label_columns_.push_back(at);
    label_index_.emplace_back();
  }
}

Result<void> SweepBuilder::check_shape(std::size_t row, const ModelSpec& model) const {
  const auto refuse = [&](std::string_view name, std::int64_t value, std::string_view by,
                          std::int64_t divisor) {
    return table_.refuse_row(
        row, fmt::format("model '{}': '{}' ({}) is not a multiple of '{}' ({})", model.name,
                         name, value, by, divisor));
  };
  if (model.heads % model.kv_heads != 0)
    return refuse("heads", model.heads, "kv_heads", model.kv_heads);
  if (model.head_dim == 0 && model.hidden % model.heads != 0)
    return refuse("hidden", model.hidden, "heads", model.heads);
  return {};
}

/// A world smaller than a node is known by its GPUs, as in a sweep file.
Result<void> SweepBuilder::place(std::size_t row, RecordedRun& run, std::int64_t nodes) const {
  auto& point = run.point;
  const std::int64_t world = point.layout.world();
  if (point.gpus != world) {
    const auto& layout = point.layout;
    return table_.refuse_row(
        row, fmt::format("{} GPUs, but dp {} x tp {} x pp {} = {}", point.gpus, layout.dp,
                         layout.tp, layout.pp, world));
  }
  const std::int64_t per_node = options_.gpus_per_node;
  if (per_node > 0) {
    const auto needed = (world + per_node - 1) / per_node;
    const bool whole = world < per_node || world % per_node == 0;
    if (nodes == 0) nodes = needed;
    if (nodes != needed || !whole) {
      return table_.refuse_row(
          row, fmt::format("{} GPUs on {} nodes, but the cluster's nodes have {} GPUs", world,
                           nodes, per_node));
    }
  }
  if (nodes == 0)
    return table_.refuse_row(
        row, "the number of nodes is missing; add a column 'nodes' or give a cluster");
  if (world % nodes != 0) {
    return table_.refuse_row(
        row, fmt::format("{} GPUs cannot be divided by {} nodes", world, nodes));
  }
  run.nodes = static_cast<std::int32_t>(nodes);
  point.nodes = per_node > 0 && world < per_node ? 0 : run.nodes;
  return {};
}

std::int32_t SweepBuilder::model_index(const ModelSpec& model) {
  auto& models = sweep_.models;
  const auto index = std::find(models.begin(), models.end(), model) - models.begin();
  if (static_cast<std::size_t>(index) == models.size()) models.push_back(model);
  return static_cast<std::int32_t>(index);
}

Result<void> SweepBuilder::add(std::size_t row, RecordedRun run, const ModelSpec& model,
                               std::int64_t nodes) {
  SHARDSWEEP_TRY(check_shape(row, model));
  SHARDSWEEP_TRY(place(row, run, nodes));
  run.point.model = model_index(model);
  run.line = table_.line(row);
  for (std::size_t i = 0; i < label_columns_.size(); ++i) {
    const auto& cell = table_.cell(row, label_columns_[i]);
    auto& values = sweep_.labels[i].values;
    const auto [at, fresh] =
        label_index_[i].emplace(cell.text, static_cast<std::int32_t>(values.size()));
    if (fresh) values.push_back(value_of(cell));
    run.labels.push_back(at->second);
  }
  sweep_.runs.push_back(std::move(run));
  return {};
}

}  // namespace shardsweep::recorded
