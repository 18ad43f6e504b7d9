// SPDX-License-Identifier: Apache-2.0
#include "report/frontier_picture.hpp"

#include "picture/heatmap_picture.hpp"
#include "report/charts.hpp"
#include "show/cell_text.hpp"
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
    return fmt::format("{}: {} tokens/s/GPU, {}", point.layout, amount_text(point.speed), cost);
  return fmt::format("{} {}: {} tokens/s with {}", cost, frontier.cost_column,
                     amount_text(point.speed), point.layout);
}

void add_group(Chart& chart, const Frontier& frontier, const FrontierGroup& group,
               const std::string& name, std::size_t number) {
  ChartSeries best{name, {}, {Ink::none, category_colour(number)}, true};
  ChartSeries beaten{name.empty() ? "" : "beaten", {}, {Ink::faint}};
  for (const auto& point : group.points) {
    auto& points = point.beaten ? beaten.points : best.points;
    points.push_back({point.cost, point.speed,
                      point.beaten ? "" : printable(title_of_point(frontier, point))});
  }
  if (!beaten.points.empty()) chart.series.push_back(std::move(beaten));
  chart.series.push_back(std::move(best));
}

Drawing memory_picture(const Frontier& frontier) {
  std::vector<Drawing> drawings;
  for (const auto& group : frontier.groups) {
    Chart chart{printable(group.title),
                {"peak memory per GPU", frontier.cost_column, false, true, {}},
                {"tokens/s/GPU", "tokens_per_s_per_gpu", false, true, {}}};
    add_group(chart, frontier, group, "not beaten", 0);
    drawings.push_back(chart_picture(chart));
  }
  return stacked(std::move(drawings));
}

Drawing nodes_picture(const Frontier& frontier) {
  Chart chart{"Speed of the whole world",
              {frontier.cost_column, frontier.cost_column, true, false, {}},
              {"tokens/s", "tokens_per_s", true, false, {}}};
  for (std::size_t i = 0; i < frontier.groups.size(); ++i)
    add_group(chart, frontier, frontier.groups[i], printable(frontier.groups[i].title), i);
  return chart_picture(chart);
}

}  // namespace

Drawing frontier_picture(const Frontier& frontier) {
  return frontier.by == FrontierCost::memory ? memory_picture(frontier)
                                             : nodes_picture(frontier);
}

}  // namespace shardsweep
