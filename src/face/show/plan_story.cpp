// SPDX-License-Identifier: Apache-2.0
#include "show/plan_story.hpp"

#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

namespace shardsweep {
namespace {

double at_most(const PlannedLaunch& one) {
  constexpr double sigmas = 1.645;
  return one.tokens_per_s_per_gpu * std::exp(sigmas * one.sigma);
}

std::vector<Value> columns_of_cell(const PlannedCell& cell) {
  return {
      cell.model, std::int64_t{cell.seq_len}, std::int64_t{cell.nodes}, std::int64_t{cell.gpus}};
}

Table all_rows(const std::vector<PlannedCell>& cells) {
  Table table{{"model", "seq_len", "nodes", "gpus", "launch", "layout", "predicted", "at_most",
                  "fits", "gpu_hours", "rule", "why"},
      {}};
  for (const auto& cell : cells) {
    std::int64_t number = 0;
    for (const auto& one : cell.launches) {
      auto& row = table.rows.emplace_back(columns_of_cell(cell));
      for (Value value : std::vector<Value>{++number, layout_text(one.point),
               one.tokens_per_s_per_gpu, at_most(one), one.fits, one.gpu_hours, Value(), one.why})
        row.push_back(std::move(value));
    }
    for (const auto& one : cell.left_out) {
      auto& row = table.rows.emplace_back(columns_of_cell(cell));
      for (Value value : std::vector<Value>{Value(), layout_text(one.point), Value(), Value(),
               Value(), Value(), one.verdict.constraint, one.verdict.why})
        row.push_back(std::move(value));
    }
  }
  return table;
}

std::string launches_text(const PlannedCell& cell, const TableStyle& style) {
  Table table{{"launch", "layout", "predicted", "at_most", "fits", "gpu_hours", "why"}, {}};
  std::int64_t number = 0;
  for (const auto& one : cell.launches)
    table.rows.push_back({++number, layout_text(one.point),
        grouped(std::llround(one.tokens_per_s_per_gpu)), grouped(std::llround(at_most(one))),
        fmt::format("{:.0f} %", 100 * one.fits), fmt::format("{:.1f}", one.gpu_hours), one.why});
  return table_text(table, style);
}

std::string left_out_text(const PlannedCell& cell, const TableStyle& style) {
  Table table{{"layout", "rule", "why"}, {}};
  for (const auto& one : cell.left_out)
    table.rows.push_back({layout_text(one.point), one.verdict.constraint, one.verdict.why});
  return "Left out:\n" + table_text(table, style);
}

}  // namespace

std::string plan_story_text(const std::vector<PlannedCell>& cells, const TableStyle& style) {
  if (style.format != Format::table) return table_text(all_rows(cells), style);
  std::string text;
  for (const auto& cell : cells) {
    text += fmt::format("{}{} seq_len {} on {}: {}\n", text.empty() ? "" : "\n", cell.model,
        cell.seq_len, cell.nodes > 0 ? counted(cell.nodes, "node") : counted(cell.gpus, "GPU"),
        counted(static_cast<std::int64_t>(cell.launches.size()), "trial"));
    if (!cell.launches.empty()) text += launches_text(cell, style);
    if (!cell.left_out.empty()) text += left_out_text(cell, style);
  }
  return text;
}

}  // namespace shardsweep
