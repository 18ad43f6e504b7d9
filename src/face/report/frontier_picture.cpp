// SPDX-License-Identifier: Apache-2.0
#include "report/frontier_picture.hpp"

#include "picture/heatmap_picture.hpp"
#include "report/charts.hpp"
#include "show/cell_text.hpp"
#include "show/share_steps.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

std::string title_of_point(const Frontier& frontier, const FrontierPoint& point) {
  const auto cost = humanised(frontier.cost_column, point.cost);
  if (frontier.by == FrontierCost::memory)
    return fmt::format(
        "{}: {} tokens/s/GPU, {}", short_layout(point.layout), amount_text(point.speed), cost);
  return fmt::format("{} {}: {} tokens/s with {}", cost, frontier.cost_column,
      amount_text(point.speed), short_layout(point.layout));
}

/// What beats and what is beaten; of these one series is enough for all groups.
void add_group(Chart& chart, ChartSeries& beaten, const Frontier& frontier,
    const FrontierGroup& group, const std::string& name) {
  ChartSeries best{name, {}, {Ink::none, category_colour(chart.series.size())}, true};
  for (const auto& point : group.points) {
    auto& points = point.beaten ? beaten.points : best.points;
    points.push_back(
        {point.cost, point.speed, point.beaten ? "" : printable(title_of_point(frontier, point))});
  }
  chart.series.push_back(std::move(best));
}

Drawing drawn(Chart chart, ChartSeries beaten) {
  if (!beaten.points.empty()) chart.series.push_back(std::move(beaten));
  return chart_picture(chart);
}

Drawing memory_picture(const Frontier& frontier) {
  std::vector<Drawing> drawings;
  drawings.reserve(frontier.groups.size());
  for (const auto& group : frontier.groups) {
    Chart chart{printable(group.title),
        {"peak memory per GPU", frontier.cost_column, false, true, {}},
        {"tokens/s/GPU", "tokens_per_s_per_gpu", false, true, {}}};
    ChartSeries beaten{"beaten", {}, {Ink::faint}};
    add_group(chart, beaten, frontier, group, "not beaten");
    drawings.push_back(drawn(std::move(chart), std::move(beaten)));
  }
  return stacked(std::move(drawings));
}

Drawing nodes_picture(const Frontier& frontier) {
  Chart chart{"Speed of the whole world",
      {frontier.cost_column, frontier.cost_column, true, false, {}, true},
      {"tokens/s", "tokens_per_s", true, false, {}}};
  ChartSeries beaten{"beaten", {}, {Ink::faint}};
  for (const auto& group : frontier.groups)
    add_group(chart, beaten, frontier, group, printable(group.title));
  return drawn(std::move(chart), std::move(beaten));
}

}  // namespace

Drawing frontier_picture(const Frontier& frontier) {
  return frontier.by == FrontierCost::memory ? memory_picture(frontier) : nodes_picture(frontier);
}

}  // namespace shardsweep
