// SPDX-License-Identifier: Apache-2.0
#include "show/heatmap_table.hpp"

#include "answer/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

/// A label as a value: a number where it is one.
Value label_value(const std::string& text) {
  std::int64_t integer = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, integer);
  if (read.ec == std::errc() && read.ptr == end && std::to_string(integer) == text) return integer;
  return text;
}

Value matrix_value(const Heatmap& heatmap, const HeatmapCell& cell) {
  if (cell.status == "none") return std::monostate{};
  if (heatmap.value_name != "outcome" && cell.value) return *cell.value;
  return std::string(cell.status);
}

bool is_ranked_otherwise(const Heatmap& heatmap) {
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (!cell.published_layout.empty()) return true;
    }
  }
  return false;
}

void add_published(std::vector<Value>& row, const HeatmapCell& cell) {
  if (cell.published_layout.empty()) {
    row.resize(row.size() + 3);
    return;
  }
  row.emplace_back(cell.published_layout);
  row.emplace_back(cell.published_tokens_per_s_per_gpu);
  row.emplace_back(cell.published_by.empty() ? Value() : Value(cell.published_by));
}

Value word_or_null(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}

Value number_or_null(const std::optional<double>& number) {
  return number ? Value(*number) : Value();
}

Table with_facet(const Heatmap& heatmap, Table table) {
  if (heatmap.facet_name.empty()) return table;
  table.columns.insert(table.columns.begin(), heatmap.facet_name);
  for (auto& row : table.rows)
    row.insert(row.begin(), heatmap.facet_value);
  return table;
}

}  // namespace

Table heatmap_matrix(const Heatmap& heatmap) {
  Table table;
  table.note = heatmap.note;
  table.columns.push_back(heatmap.row_name);
  for (const auto& column : heatmap.columns)
    table.columns.push_back(fmt::format("{}={}", heatmap.column_name, column));
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    auto& row = table.rows.emplace_back();
    row.push_back(label_value(heatmap.rows[r]));
    for (const auto& cell : heatmap.cells[r])
      row.push_back(matrix_value(heatmap, cell));
  }
  return with_facet(heatmap, std::move(table));
}

namespace {

/// lead_share, runner_up, repeats and repeat_spread of a cell.
std::vector<Value> ranking_of(const CellAnswer& answer) {
  const auto* first = answer.winner();
  const auto* second = answer.runner_up();
  if (first == nullptr) return {Value(), Value(), std::int64_t{0}, Value()};
  return {number_or_null(lead_of(answer)), second == nullptr ? Value() : Value(second->name),
      static_cast<std::int64_t>(first->runs.size()), number_or_null(first->spread)};
}

/// How sure the answer is: verdict, verdict_reason, certainty, doubts and to_settle.
void add_verdict(std::vector<Value>& row, const CellAnswer& answer) {
  const bool compared = answer.runner_up() != nullptr;
  const auto& verdict = compared ? answer.winner()->verdict : SpeedVerdict();
  row.push_back(compared ? Value(std::string(word_of(verdict.difference))) : Value());
  row.push_back(compared ? word_or_null(verdict.reason) : Value());
  row.push_back(word_or_null(certainty_text(answer)));
  row.push_back(word_or_null(doubts_text(answer)));
  row.push_back(word_or_null(answer.settling.text));
}

}  // namespace

Table heatmap_list(const Heatmap& heatmap) {
  const bool outcome = heatmap.value_name == "outcome";
  Table table;
  table.note = heatmap.note;
  table.columns = {heatmap.row_name, heatmap.column_name, heatmap.value_name, "layout", "status",
      "trials", "completed", "open", "infeasible", "lead_share", "runner_up", "repeats",
      "repeat_spread", "predicted", "predicted_layout", "why"};
  const bool published = is_ranked_otherwise(heatmap);
  if (published) {
    table.columns.emplace_back("published_layout");
    table.columns.emplace_back("published_tokens_per_s_per_gpu");
    table.columns.emplace_back("published_by");
  }
  table.columns.insert(
      table.columns.end(), {"verdict", "verdict_reason", "certainty", "doubts", "to_settle"});
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto& cell = heatmap.cells[r][c];
      Value value;
      if (outcome && outcome_from(cell.status)) value = std::string(cell.status);
      if (!outcome && cell.value) value = *cell.value;
      table.rows.push_back({label_value(heatmap.rows[r]), label_value(heatmap.columns[c]), value,
          word_or_null(cell.layout), std::string(cell.status), cell.trials, cell.completed,
          cell.open, cell.infeasible});
      auto& row = table.rows.back();
      const auto ranking = ranking_of(cell.answer);
      row.insert(row.end(), ranking.begin(), ranking.end());
      row.insert(row.end(),
          {number_or_null(cell.predicted), word_or_null(cell.predicted_layout),
              word_or_null(cell.why)});
      if (published) add_published(row, cell);
      add_verdict(row, cell.answer);
    }
  }
  return with_facet(heatmap, std::move(table));
}

void append_table(Table& table, Table more) {
  if (table.columns.empty()) {
    table = std::move(more);
    return;
  }
  std::vector<std::size_t> places;
  for (auto& column : more.columns) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), column);
    places.push_back(static_cast<std::size_t>(found - table.columns.begin()));
    if (found == table.columns.end()) table.columns.push_back(std::move(column));
  }
  for (auto& row : table.rows)
    row.resize(table.columns.size());
  for (auto& row : more.rows) {
    auto& placed = table.rows.emplace_back(table.columns.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      placed[places[i]] = std::move(row[i]);
  }
}

}  // namespace shardsweep
