// SPDX-License-Identifier: Apache-2.0
#include "show/plan_story.hpp"

#include "show/column.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

double at_most(const PlannedLaunch& one) {
  constexpr double sigmas = 1.645;
  return one.tokens_per_s_per_gpu * std::exp(sigmas * one.sigma);
}

/// A launch with its number, or a point that is left out.
struct StoryRow {
  const PlannedCell* cell = nullptr;
  std::int64_t number = 0;
  const PlannedLaunch* launch = nullptr;
  const LeftOut* left_out = nullptr;
};

using StoryColumn = Column<StoryRow>;

/// NULL of what is left out.
StoryColumn launch_column(std::string name, double (*number)(const PlannedLaunch&),
    std::string (*text)(double), std::string title = "") {
  return {std::move(name),
      [number](const StoryRow& row) { return row.launch ? Value(number(*row.launch)) : Value(); },
      For::all, std::move(title),
      [number, text](
          const StoryRow& row) { return row.launch ? text(number(*row.launch)) : std::string(); }};
}

std::string whole_text(double number) {
  return grouped(std::llround(number));
}

const View<StoryRow>& story_columns() {
  using Row = const StoryRow&;
  static const View<StoryRow> columns{
      {"model", [](Row row) { return row.cell->model; }, For::machines},
      {"seq_len", [](Row row) { return std::int64_t{row.cell->seq_len}; }, For::machines},
      {"nodes", [](Row row) { return std::int64_t{row.cell->nodes}; }, For::machines},
      {"gpus", [](Row row) { return std::int64_t{row.cell->gpus}; }, For::machines},
      {"launch", [](Row row) { return row.launch ? Value(row.number) : Value(); }},
      {"layout",
          [](Row row) {
            return layout_text(row.launch ? row.launch->point : row.left_out->point);
          }},
      launch_column(
          "predicted", [](const PlannedLaunch& one) { return one.tokens_per_s_per_gpu; },
          whole_text),
      launch_column("at_most", at_most, whole_text, "at most"),
      launch_column(
          "fits", [](const PlannedLaunch& one) { return one.fits; },
          [](double share) { return fmt::format("{:.0f} %", 100 * share); }),
      launch_column(
          "gpu_hours", [](const PlannedLaunch& one) { return one.gpu_hours; },
          [](double hours) { return fmt::format("{:.1f}", hours); }),
      {"rule",
          [](Row row) { return row.launch ? Value() : Value(row.left_out->verdict.constraint); }},
      {"why", [](Row row) { return row.launch ? row.launch->why : row.left_out->verdict.why; }}};
  return columns;
}

std::vector<StoryRow> launches_of(const PlannedCell& cell) {
  std::vector<StoryRow> rows;
  for (const auto& one : cell.launches)
    rows.push_back({&cell, std::ssize(rows) + 1, &one});
  return rows;
}

std::vector<StoryRow> left_out_of(const PlannedCell& cell) {
  std::vector<StoryRow> rows;
  for (const auto& one : cell.left_out)
    rows.push_back({.cell = &cell, .left_out = &one});
  return rows;
}

std::string all_rows(const std::vector<PlannedCell>& cells, const TableStyle& style) {
  std::vector<StoryRow> rows;
  for (const auto& cell : cells) {
    for (const auto& some : {launches_of(cell), left_out_of(cell)})
      rows.insert(rows.end(), some.begin(), some.end());
  }
  return view_text(story_columns(), rows, style);
}

}  // namespace

std::string plan_story_text(const std::vector<PlannedCell>& cells, const TableStyle& style) {
  if (!is_for_people(style.format)) return all_rows(cells, style);
  std::string text;
  for (const auto& cell : cells) {
    text += fmt::format("{}{} seq_len {} on {}: {}\n", text.empty() ? "" : "\n", cell.model,
        cell.seq_len, cell.nodes > 0 ? counted(cell.nodes, "node") : counted(cell.gpus, "GPU"),
        counted(static_cast<std::int64_t>(cell.launches.size()), "trial"));
    if (!cell.launches.empty()) text += view_text(story_columns(), launches_of(cell), style);
    if (!cell.left_out.empty())
      text += "Left out:\n" + view_text(story_columns(), left_out_of(cell), style);
  }
  return text;
}

}  // namespace shardsweep
