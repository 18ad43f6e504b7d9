// SPDX-License-Identifier: Apache-2.0
#include "table/table.hpp"

#include "sweep/model_shape.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"
#include "yaml/csv.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsweep::recorded {
namespace {

using config::refuse;
using config::YamlNode;

std::optional<double> number_in(std::string_view text) {
  const auto value = number_from<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

Result<CsvTable> CsvTable::read(const std::filesystem::path& file, config::Sources& sources) {
  SHARDSWEEP_ASSIGN(auto text, config::read_text_file(file, most_table_bytes));
  const auto& source = sources.emplace_back(file.string(), std::move(text));
  CsvTable table;
  SHARDSWEEP_ASSIGN(table.cells_, config::parse_csv(source, {most_table_bytes, most_table_cells}));
  if (table.cells_.empty())
    return tl::unexpected(source.fault_at(0, 0, "has no header line; name the columns in it"));
  for (auto& row : table.cells_) {
    for (auto& cell : row) {
      cell.text = std::string(trimmed(cell.text));
      if (cell.text.empty()) cell.kind = YamlNode::Kind::null;
    }
  }
  for (const auto& cell : table.cells_.front()) {
    if (cell.text.empty()) return refuse(cell, "a column without a name");
    if (has_control(cell.text))
      return refuse(cell, "control character in a column's name: {}", in_quotes(cell.text));
    if (!table.by_name_.emplace(cell.text, table.names_.size()).second) {
      return refuse(cell, "the header names the column {} twice", in_quotes(cell.text));
    }
    table.names_.push_back(cell.text);
  }
  return table;
}

const YamlNode* CsvTable::cell(std::size_t row, std::string_view column) const {
  const auto found = by_name_.find(column);
  if (found == by_name_.end()) return nullptr;
  const auto& at = cells_[row + 1][found->second];
  return at.kind == YamlNode::Kind::null ? nullptr : &at;
}

tl::unexpected<Fault> CsvTable::refuse_row(std::size_t row, std::string_view what) const {
  return refuse(cells_[row + 1].front(), what);
}

tl::unexpected<Fault> CsvTable::refuse_header(std::string_view what) const {
  return refuse(cells_.front().front(), what);
}

Result<std::int64_t> read_whole(
    const YamlNode& cell, std::string_view column, std::int64_t least, std::int64_t most) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  const auto value = number_in(cell.text);
  if (!value || *value != std::floor(*value) || std::abs(*value) > exact) {
    return refuse(cell, "expected a whole number for '{}', got {}", column, in_quotes(cell.text));
  }
  const auto whole = static_cast<std::int64_t>(*value);
  if (whole < least || whole > most) {
    return refuse(cell, "'{}' is {}; it must be from {} to {}", column, whole, least, most);
  }
  return whole;
}

Result<std::optional<double>> read_amount(const YamlNode& cell, std::string_view column) {
  const auto value = number_in(cell.text);
  if (!value || *value < 0) {
    return refuse(
        cell, "expected a number of at least 0 for '{}', got {}", column, in_quotes(cell.text));
  }
  return *value > 0 ? value : std::nullopt;
}

Result<bool> read_flag(const YamlNode& cell, std::string_view column) {
  const auto& text = cell.text;
  if (text == "true" || text == "True" || text == "1" || text == "1.0") return true;
  if (text == "false" || text == "False" || text == "0" || text == "0.0") return false;
  return refuse(cell, "expected true or false for '{}', got {}", column, in_quotes(text));
}

Result<std::size_t> read_word(
    const YamlNode& cell, std::string_view column, const std::vector<std::string_view>& words) {
  const auto found = std::find(words.begin(), words.end(), cell.text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  return refuse(cell, "expected one of {} for '{}', got {}", fmt::join(words, ", "), column,
      in_quotes(cell.text));
}

Value value_of(const YamlNode& cell) {
  if (cell.kind == YamlNode::Kind::null) return {};
  const auto& text = cell.text;
  if (const auto integer = number_from<std::int64_t>(text)) return *integer;
  if (const auto real = number_in(text)) return *real;
  return text;
}

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
  const auto mistakes = shape_mistakes(model);
  if (mistakes.empty()) return {};
  return table_.refuse_row(row, fmt::format("model '{}': {}", model.name, mistakes.front().what));
}

/// A world smaller than a node is known by its GPUs, as in a sweep file.
Result<void> SweepBuilder::place(std::size_t row, RecordedRun& run, std::int64_t nodes) const {
  auto& point = run.point;
  const std::int64_t world = point.layout.world();
  if (point.gpus != world) {
    const auto& layout = point.layout;
    return table_.refuse_row(row,
        fmt::format("{} GPUs, but dp {} x tp {} x pp {} = {}", point.gpus, layout.dp, layout.tp,
            layout.pp, world));
  }
  const std::int64_t per_node = options_.gpus_per_node;
  if (per_node > 0) {
    const auto needed = (world + per_node - 1) / per_node;
    const bool whole = world < per_node || world % per_node == 0;
    if (nodes == 0) nodes = needed;
    if (nodes != needed || !whole) {
      return table_.refuse_row(row,
          fmt::format(
              "{} GPUs on {} nodes, but the cluster's nodes have {} GPUs", world, nodes, per_node));
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

Result<void> SweepBuilder::add(
    std::size_t row, RecordedRun run, const ModelSpec& model, std::int64_t nodes) {
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
