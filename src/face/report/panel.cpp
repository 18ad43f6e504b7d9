// SPDX-License-Identifier: Apache-2.0
// What a page shows of one cell.
#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t most_ranked = 10;
constexpr std::size_t most_finalists = 3;

Table top_table(const ReportView& view, const CellLayouts& cell) {
  Table table;
  table.columns = {"layout",        "tokens_per_s_per_gpu", "behind_share",
                   "runs",          "repeat_spread",        "against_the_fastest",
                   "train_step_ms", "peak_memory_bytes",    "trial"};
  for (std::size_t i = 0; i < std::min(cell.layouts.size(), most_ranked); ++i) {
    const auto& layout = cell.layouts[i];
    const double behind = 1 - layout.ranked.value / cell.layouts.front().ranked.value;
    const auto& spread = layout.ranked.spread;
    table.rows.push_back({layout.name, layout.ranked.value, i == 0 ? Value() : Value(behind),
                          layout.ranked.runs, spread ? Value(*spread) : Value(),
                          i == 0 ? Value() : Value(verdict_text(reversed(layout.verdict))),
                          view.trials.value(layout.median_run, "train_step_ms"),
                          view.trials.value(layout.median_run, "peak_memory_bytes"),
                          view.trials.text(layout.median_run, "trial")});
  }
  return table;
}

std::string breakdown(const ReportView& view, const CellLayouts& cell) {
  std::vector<StackedBar> times;
  std::vector<StackedBar> memories;
  const auto parts = [&view](std::size_t row, std::string_view column) {
    std::vector<BarPart> found;
    for (auto& [name, value] : view.trials.numbers(row, column))
      found.push_back({std::move(name), value});
    return found;
  };
  for (std::size_t i = 0; i < std::min(cell.layouts.size(), most_finalists); ++i) {
    const auto& layout = cell.layouts[i];
    auto phases = parts(layout.median_run, "phases");
    auto classes = parts(layout.median_run, "memory_classes");
    if (!phases.empty()) times.push_back({layout.name, std::move(phases)});
    if (!classes.empty()) memories.push_back({layout.name, std::move(classes)});
  }
  std::string out;
  if (!times.empty()) {
    out +=
        figure(svg_text(bars_picture("Where a train step goes", "train_step_ms", times, {}, ""),
                        SvgUse::page),
               "Mean over the ranks, of the median train step. Forward and backward contain "
               "their waits for tensor parallelism.");
  }
  if (!memories.empty()) {
    std::optional<double> limit;
    if (view.memory_limit) limit = static_cast<double>(*view.memory_limit);
    out += figure(svg_text(bars_picture("Where memory goes", "peak_memory_bytes", memories,
                                        limit, "limit"),
                           SvgUse::page),
                  "Of the rank that needs most; each class at its own peak.");
  }
  return out;
}

/// Those that ran out of memory stand on the border, as high as their prediction.
std::string memory_chart(const ReportView& view, const CellLayouts& cell) {
  Chart chart{"Speed against memory",
              {"peak memory per GPU", "peak_memory_bytes", false, true, {}},
              {"tokens/s/GPU", "tokens_per_s_per_gpu", false, true, {}}};
  ChartSeries measured{"measured", {}, {Ink::none, category_colour(0)}};
  ChartSeries oom{"out of memory, predicted", {}, {Ink::none, category_colour(1)}};
  std::set<std::size_t> named;  // a title for each of thousands would be most of the page
  for (std::size_t i = 0; i < std::min(cell.layouts.size(), most_ranked); ++i)
    named.insert(cell.layouts[i].median_run);
  double most = static_cast<double>(view.memory_limit.value_or(0));
  for (const auto row : cell.trials) {
    const auto speed = view.trials.number(row, "tokens_per_s_per_gpu");
    const auto memory = view.trials.number(row, "peak_memory_bytes");
    if (!speed || !memory) continue;
    const bool finalist = named.contains(row);
    measured.points.push_back(
        {*memory, *speed,
         finalist ? fmt::format("{}: {} tokens/s/GPU, {}", view.trials.text(row, "layout"),
                                amount_text(*speed), bytes_text(*memory))
                  : ""});
    most = std::max(most, *memory);
  }
  if (measured.points.size() < 2) return {};
  std::int64_t failed = 0;
  for (const auto row : cell.trials) {
    if (view.trials.text(row, "outcome") != "oom") continue;
    ++failed;
    const auto speed = view.trials.number(row, "predicted_tokens_per_s_per_gpu");
    if (speed) oom.points.push_back({most, *speed, {}});
  }
  if (view.memory_limit) {
    chart.limit = static_cast<double>(*view.memory_limit);
    chart.limit_name = "limit";
  }
  chart.series.push_back(std::move(measured));
  if (!oom.points.empty()) chart.series.push_back(std::move(oom));
  std::string caption = "Each dot is a run; the ten fastest have their layout as a tooltip.";
  if (failed > 0)
    caption += fmt::format(" {} ran out of memory{}.", counted(failed, "trial"),
                           chart.series.size() > 1
                               ? ": they stand at the limit, at their predicted speed"
                               : ", and no speed of them is predicted");
  return figure(svg_text(chart_picture(chart), SvgUse::page), caption);
}

/// Axes in which layouts of one cell may differ, but for those that follow from the others (dp
/// and grad_accum), and the vars.
const std::vector<std::string>& sliced_columns() {
  static const auto columns = [] {
    std::vector<std::string> names;
    for (const auto& axis : axes()) {
      if (!axis.is(AxisUse::cell) && !axis.allows_auto) names.emplace_back(axis.name);
    }
    names.emplace_back("vars");
    return names;
  }();
  return columns;
}

std::string rest_of_layout(const Rows& trials, std::size_t row, std::string_view axis) {
  std::string rest;
  for (const auto& other : sliced_columns()) {
    if (axis != other && !trials.text(row, other).empty())
      rest += fmt::format("{} {} ", other, trials.text(row, other));
  }
  return rest;
}

/// Each line holds all other axes fixed.
std::string slice_chart(const ReportView& view, const CellLayouts& cell,
                        const std::string& axis) {
  std::map<std::string, std::map<std::string, double>> lines;
  std::vector<std::string> values;
  for (const auto& layout : cell.layouts) {
    const auto value = view.trials.text(layout.median_run, axis);
    lines[rest_of_layout(view.trials, layout.median_run, axis)][value] = layout.ranked.value;
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  std::erase_if(lines, [](const auto& line) { return line.second.size() < 2; });
  if (values.size() < 2 || lines.empty()) return {};
  std::sort(values.begin(), values.end(), natural_less);
  Chart chart{axis, {"", "", false, false, values}, {"tokens/s/GPU", "tokens_per_s_per_gpu"}};
  chart.width = 330;
  chart.height = 200;
  chart.y.from_zero = true;
  constexpr std::size_t most_lines = 5;
  for (const auto& [rest, points] : lines) {
    if (chart.series.size() == most_lines) break;
    ChartSeries series{"", {}, {Ink::none, category_colour(chart.series.size())}, true};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto found = points.find(values[i]);
      if (found == points.end()) continue;
      series.points.push_back({static_cast<double>(i), found->second});
      series.title +=
          fmt::format("{} {}: {} tokens/s/GPU; ", axis, values[i], amount_text(found->second));
    }
    series.title += "all else: " + rest;
    chart.series.push_back(std::move(series));
  }
  return svg_text(chart_picture(chart), SvgUse::page);
}

std::string slices(const ReportView& view, const CellLayouts& cell) {
  std::string charts;
  for (const auto& axis : sliced_columns())
    charts += slice_chart(view, cell, axis);
  if (charts.empty()) return {};
  return "<h3>What if only this axis changes?</h3><figure><div class=\"split\">" + charts +
         "</div><figcaption>A line joins layouts that differ in this axis alone; dp and "
         "grad_accum follow from the world and the batch.</figcaption></figure>\n";
}

}  // namespace

std::string cell_panel(const ReportView& view, const CellLayouts& cell) {
  const auto& heatmap = view.heatmap;
  std::map<std::string, std::int64_t> outcomes;
  for (const auto row : cell.trials) {
    const auto outcome = view.trials.text(row, "outcome");
    ++outcomes[outcome.empty() ? view.trials.text(row, "state") : outcome];
  }
  std::string counts;
  for (const auto& [outcome, count] : outcomes)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, outcome);
  std::string out = fmt::format(
      "<h3>{} {}, {} {}</h3>\n<p>{}: {}.</p>\n", escaped(heatmap.row_name),
      escaped(heatmap.rows[cell.row]), escaped(heatmap.column_name),
      escaped(heatmap.columns[cell.column]),
      counted(static_cast<std::int64_t>(cell.trials.size()), "trial"), escaped(counts));
  if (cell.layouts.empty()) {
    const auto& why = heatmap.cells[cell.row][cell.column].why;
    return out + (why.empty() ? "" : fmt::format("<p>{}</p>\n", escaped(why)));
  }
  out += html_table(top_table(view, cell), "The fastest layouts of this cell");
  out += breakdown(view, cell);
  out += memory_chart(view, cell);
  return out + slices(view, cell);
}

std::string heatmap_section(const ReportView& view) {
  constexpr std::size_t most_panels = 80;
  auto body =
      figure(svg_text(heatmap_picture(view.heatmap), SvgUse::page),
             "Point at a cell for its details; press Enter, or click, to see its layouts "
             "below. Arrow keys move between cells.");
  body += "<div id=\"panels\" aria-live=\"polite\">\n";
  std::vector<const CellLayouts*> order;
  for (const auto& cell : view.layouts.cells)
    order.push_back(&cell);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->layouts.size() > b->layouts.size();
  });
  for (std::size_t i = 0; i < std::min(order.size(), most_panels); ++i) {
    body += fmt::format("<div class=\"panel\" id=\"panel-{}\"{}>\n{}</div>\n",
                        cell_key(order[i]->row, order[i]->column), i == 0 ? "" : " hidden",
                        cell_panel(view, *order[i]));
  }
  return section("Heatmap", body + "</div>\n");
}

}  // namespace shardsweep
