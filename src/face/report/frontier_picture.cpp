// SPDX-License-Identifier: Apache-2.0
#include "report/frontier_picture.hpp"

#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/cells_of_page.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <span>
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

/// Adds the points that are not beaten as a series, and the others to `beaten`, one series for all
/// groups.
void add_group(Chart& chart, ChartSeries& beaten, const Frontier& frontier,
    const FrontierGroup& group, const std::string& name) {
  ChartSeries best{name, {}, {Ink::none, category_colour(chart.series.size())}, true};
  best.colour = chart.series.size();
  for (const auto& point : group.points) {
    auto& points = point.beaten ? beaten.points : best.points;
    points.push_back(
        {point.cost, point.speed, point.beaten ? "" : printable(title_of_point(frontier, point))});
  }
  chart.series.push_back(std::move(best));
}

/// A chart per group, or of nodes one with a line per group.
std::vector<Chart> charts_of(const Frontier& frontier) {
  const bool memory = frontier.by == FrontierCost::memory;
  std::vector<Chart> charts;
  std::vector<ChartSeries> beaten;
  for (const auto& group : frontier.groups) {
    if (memory) {
      charts.push_back(
          {printable(group.title), {"peak memory per GPU", frontier.cost_column, false, true, {}},
              {"tokens/s/GPU", "tokens_per_s_per_gpu", false, true, {}}});
    } else if (charts.empty()) {
      charts.push_back({"Speed of the whole world",
          {frontier.cost_column, frontier.cost_column, true, false, {}, true},
          {"tokens/s", "tokens_per_s", true, false, {}}});
    }
    if (beaten.size() < charts.size()) {
      beaten.push_back({"beaten", {}, {Ink::faint}});
      // The grey one of a page's colours.
      beaten.back().colour = number_of(ColourRole::derived);
    }
    add_group(charts.back(), beaten.back(), frontier, group,
        memory ? "not beaten" : printable(group.title));
  }
  for (std::size_t i = 0; i < charts.size(); ++i)
    if (!beaten[i].points.empty()) charts[i].series.push_back(std::move(beaten[i]));
  return charts;
}

}  // namespace

Drawing frontier_picture(const Frontier& frontier) {
  std::vector<Drawing> drawings;
  for (const Chart& chart : charts_of(frontier))
    drawings.push_back(chart_picture(chart));
  return stacked(std::move(drawings));
}

std::string frontier_page(std::span<const Frontier> frontiers, const std::string& made) {
  std::string body = "<main>\n<header>\n<h1>What memory and nodes buy</h1>\n";
  body += fmt::format("<p class=\"sub\">{}</p>\n</header>\n", xml_escaped(made));
  for (const auto& frontier : frontiers) {
    const auto* title = frontier.by == FrontierCost::memory ? "Speed against memory of a GPU"
                                                            : "Speed against nodes";
    body += fmt::format("<section>\n<h2>{}</h2>\n<p class=\"faint\">{}</p>\n", title,
        xml_escaped(without_options(frontier.table.note)));
    body += "<div class=\"small-charts\">\n";
    for (const Chart& chart : charts_of(frontier))
      body += fmt::format(
          "<div>\n<h3>{}</h3>\n{}</div>\n", xml_escaped(chart.title), chart_figure(chart, ""));
    body += "</div>\n" + html_table(frontier.table, title) + "</section>\n";
  }
  return html_page("What memory and nodes buy",
      body + "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n", PageScript::whole);
}

}  // namespace shardsweep
