// SPDX-License-Identifier: Apache-2.0
#include "report/charts.hpp"

#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/cells_of_page.hpp"
#include "report/page.hpp"
#include "report/page_data.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

namespace {

constexpr double tick_size = 12;
constexpr double heading_size = 13;
constexpr double left_margin = 92;
constexpr double right_margin = 14;
constexpr double top_margin = 38;
constexpr double bottom_margin = 48;

/// A scale from values to points of the picture.
class ChartScale {
 public:
  ChartScale(const ChartAxis& axis, const std::vector<double>& values, double from, double to)
      : axis_(axis), from_(from), to_(to) {
    bool any = false;
    for (const double raw : values) {
      if (!std::isfinite(raw) || (axis.logarithmic && raw <= 0)) continue;
      values_.insert(raw);
      const double value = inner(raw);
      low_ = any ? std::min(low_, value) : value;
      high_ = any ? std::max(high_, value) : value;
      any = true;
    }
    if (axis.from_zero && !axis.logarithmic) low_ = std::min(low_, 0.0);
    if (!axis.names.empty()) {
      low_ = -0.5;
      high_ = static_cast<double>(axis.names.size()) - 0.5;
    } else if (!(high_ > low_)) {
      const double around =
          axis.logarithmic || axis.whole ? 1 : std::max(std::abs(low_) * 0.1, 1e-9);
      high_ = low_ + around;
      low_ = axis.from_zero && !axis.logarithmic ? low_ : low_ - around;
    } else if (axis.logarithmic || !axis.from_zero) {
      const double pad = (high_ - low_) * 0.05;
      low_ -= pad;
      high_ += pad;
    } else {
      high_ += (high_ - low_) * 0.05;
    }
  }

  [[nodiscard]] bool shows(double value) const {
    return std::isfinite(value) && (!axis_.logarithmic || value > 0);
  }
  [[nodiscard]] double at(double value) const {
    return from_ + (inner(value) - low_) / (high_ - low_) * (to_ - from_);
  }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (!axis_.names.empty()) {
      for (std::size_t i = 0; i < axis_.names.size(); ++i)
        ticks.push_back(static_cast<double>(i));
    } else if (axis_.at_data && values_.size() <= most_at_data) {
      ticks.assign(values_.begin(), values_.end());
    } else if (axis_.logarithmic) {
      const int step = std::max(1, static_cast<int>((high_ - low_) / 5));
      const bool narrow = high_ - low_ < 2.5;
      for (int power = static_cast<int>(std::floor(low_)); power <= high_; power += step) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          const double place = std::log10(factor) + power;
          if ((factor == 1 || narrow) && place >= low_ && place <= high_)
            ticks.push_back(factor * std::pow(10, power));
        }
      }
    } else {
      double step = std::max(nice_step((high_ - low_) / 4), axis_.whole ? 1.0 : 0.0);
      // One tick alone says nothing about distances.
      while (!axis_.whole && std::floor(high_ / step) <= std::ceil(low_ / step))
        step /= 2;
      for (double tick = std::ceil(low_ / step) * step; tick <= high_ + step * 1e-9; tick += step)
        ticks.push_back(std::abs(tick) < step * 1e-6 ? 0 : tick);
    }
    return ticks;
  }
  [[nodiscard]] std::string text(double tick) const {
    if (!axis_.names.empty()) return axis_.names[static_cast<std::size_t>(tick)];
    return humanised(axis_.column, tick);
  }

 private:
  [[nodiscard]] double inner(double value) const {
    return axis_.logarithmic ? std::log10(value) : value;
  }
  /// 1, 2 or 5 times a power of ten; of bytes a power of two.
  [[nodiscard]] double nice_step(double step) const {
    if (axis_.column.ends_with("_bytes")) return std::exp2(std::ceil(std::log2(step)));
    const double power = std::pow(10, std::floor(std::log10(step)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (step <= factor * power) return factor * power;
    }
    return 10 * power;
  }
  const ChartAxis& axis_;
  double from_;
  double to_;
  double low_ = 0;
  double high_ = 0;
  std::set<double> values_;
  static constexpr std::size_t most_at_data = 10;
};

std::vector<double> all_values(const Chart& chart, double ChartPoint::*coordinate) {
  std::vector<double> values;
  for (const auto& series : chart.series) {
    for (const auto& point : series.points)
      values.push_back(point.*coordinate);
  }
  return values;
}

Group axes_group(const Chart& chart, const ChartScale& x, const ChartScale& y) {
  Group group;
  const double bottom = chart.height - bottom_margin;
  const double right = chart.width - right_margin;
  group.shapes.emplace_back(Label{4, 13, fitting_text(chart.title, heading_size, chart.width - 8),
      heading_size, Anchor::start, true});
  group.shapes.emplace_back(
      Stroke{{{left_margin, top_margin}, {left_margin, bottom}, {right, bottom}}, {Ink::faint}, 1});
  double last = -1e9;
  for (const double tick : x.ticks()) {
    const auto text = fitting_text(x.text(tick), tick_size, 90);
    const double at = x.at(tick);
    group.shapes.emplace_back(Stroke{{{at, bottom}, {at, bottom + 4}}, {Ink::faint}, 1});
    // Texts that would run into each other are left out, not their ticks.
    const double half = text_width(text, tick_size) / 2;
    if (at - half < last + 4) continue;
    last = at + half;
    group.shapes.emplace_back(Label{at, bottom + 14, text, tick_size, Anchor::middle});
  }
  for (const double tick : y.ticks()) {
    const double at = y.at(tick);
    group.shapes.emplace_back(Stroke{{{left_margin, at}, {right, at}}, {Ink::line}, 0.4});
    group.shapes.emplace_back(Label{left_margin - 4, at + 3,
        fitting_text(y.text(tick), tick_size, left_margin - 8), tick_size, Anchor::end});
  }
  group.shapes.emplace_back(Label{(left_margin + right) / 2, chart.height - 10, chart.x.title,
      tick_size, Anchor::middle, false, {Ink::faint}});
  group.shapes.emplace_back(
      Label{4, top_margin - 7, chart.y.title, tick_size, Anchor::start, false, {Ink::faint}});
  return group;
}

void add_series(
    Drawing& drawing, const ChartSeries& series, const ChartScale& x, const ChartScale& y) {
  Stroke line{{}, series.paint, 1.5, series.dashed};
  Dots dots{{}, 3, series.paint};
  std::set<std::pair<long, long>> taken;  // rounded places that have a dot: one is enough
  Group plain;
  for (const auto& point : series.points) {
    if (!x.shows(point.x) || !y.shows(point.y)) continue;
    const Vertex at{x.at(point.x), y.at(point.y)};
    line.points.push_back(at);
    if (!series.dots || !taken.emplace(std::lround(at.x), std::lround(at.y)).second) continue;
    const Dot dot{at.x, at.y, 3, point.hollow ? Paint{Ink::paper} : series.paint, series.paint};
    if (point.title.empty() && !point.hollow) {
      dots.places.push_back(at);
    } else {
      drawing.groups.push_back({{}, point.title, {dot}});
    }
  }
  if (series.line && line.points.size() > 1) plain.shapes.emplace_back(std::move(line));
  if (!dots.places.empty()) plain.shapes.emplace_back(std::move(dots));
  plain.title = series.title;
  if (!plain.shapes.empty()) drawing.groups.push_back(std::move(plain));
}

void add_names(Drawing& drawing, const std::vector<ChartSeries>& series) {
  Group group;
  double at = left_margin;
  double y = drawing.height + 4;
  for (const auto& one : series) {
    if (one.name.empty()) continue;
    const auto name = fitting_text(one.name, tick_size, 260);
    const double width = text_width(name, tick_size) + 24;
    if (at + width > drawing.width) {
      at = left_margin;
      y += 16;
    }
    group.shapes.emplace_back(Dot{at, y - 3, 3, one.paint, one.paint});
    group.shapes.emplace_back(Label{at + 7, y, name, tick_size});
    at += width;
  }
  if (group.shapes.empty()) return;
  drawing.groups.push_back(std::move(group));
  drawing.height = y + 8;
}

}  // namespace

Colour category_colour(std::size_t number) {
  constexpr std::array<Colour, 8> colours{
      {{0x48, 0xa0, 0x9f}, {0x4a, 0x41, 0x04}, {0x96, 0x61, 0x00}, {0x4e, 0x99, 0xd5},
          {0x38, 0x6b, 0xae}, {0x63, 0x1a, 0x21}, {0x57, 0x68, 0x71}, {0x4f, 0x31, 0x69}}};
  return colours[number % colours.size()];
}

Drawing chart_picture(const Chart& chart) {
  auto values = all_values(chart, &ChartPoint::x);
  if (chart.limit) values.push_back(*chart.limit);
  const ChartScale x(chart.x, values, left_margin, chart.width - right_margin);
  const ChartScale y(
      chart.y, all_values(chart, &ChartPoint::y), chart.height - bottom_margin, top_margin);
  Drawing drawing{chart.width, chart.height, chart.title, {}, {axes_group(chart, x, y)}};
  if (chart.limit) {
    const double at = x.at(*chart.limit);
    Group limit;
    limit.shapes.emplace_back(
        Stroke{{{at, top_margin}, {at, chart.height - bottom_margin}}, {Ink::accent}, 1, true});
    limit.shapes.emplace_back(Label{
        at - 3, top_margin + 8, chart.limit_name, tick_size, Anchor::end, false, {Ink::accent}});
    drawing.groups.push_back(std::move(limit));
  }
  for (const auto& series : chart.series)
    add_series(drawing, series, x, y);
  add_names(drawing, chart.series);
  return drawing;
}

namespace {

/// How the page's script writes numbers of a column.
std::string_view kind_of(std::string_view column) {
  if (column.ends_with("_bytes")) return "bytes";
  if (column.ends_with("_ms")) return "ms";
  return column.ends_with("_share") ? "share" : "number";
}

std::string number_json(double number) {
  return std::isfinite(number) ? fmt::format("{:.6g}", number) : "null";
}

std::string axis_json(const ChartAxis& axis) {
  const auto names = join_texts(axis.names, ",", script_json);
  return fmt::format(R"({{"title":{},"kind":"{}","log":{},"zero":{},"exact":{},"whole":{}{}}})",
      script_json(axis.title), kind_of(axis.column), axis.logarithmic, axis.from_zero, axis.at_data,
      axis.whole, names.empty() ? "" : ",\"names\":[" + names + "]");
}

std::string series_json(const ChartSeries& series) {
  const auto points = join_texts(series.points, ",", [](const auto& point) {
    return fmt::format("[{},{}{}]", number_json(point.x), number_json(point.y),
        point.title.empty() ? "" : "," + script_json(point.title));
  });
  return fmt::format(R"({{"name":{},"colour":{},"line":{},"dots":{},"dashed":{},"points":[{}]}})",
      script_json(series.name), series.colour, series.line, series.dots, series.dashed, points);
}

}  // namespace

std::string chart_figure(const Chart& chart, std::string_view caption) {
  const auto series = join_texts(chart.series, ",\n", series_json);
  return fmt::format(
      "<figure class=\"lines\"><script "
      "type=\"application/json\">{{\"title\":{},\"x\":{},\"y\":{},\"series\":[{}]}}</script><div "
      "class=\"plot\"></div><figcaption>{}</figcaption></figure>\n",
      script_json(chart.title), axis_json(chart.x), axis_json(chart.y), series,
      xml_escaped(caption));
}

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
