// SPDX-License-Identifier: Apache-2.0
#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "report/report_page.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// A page of more charts is opened slowly and read by nobody.
constexpr std::size_t most_charts = 60;
constexpr std::size_t most_in_picture = 24;

constexpr std::size_t date_length = 10;

/// ", 2026-11-21 to 2026-11-30"; empty if no time is known.
std::string dates_of(const HistorySeries& series) {
  const auto first = series.points.front().run.ended_at;
  const auto last = series.points.back().run.ended_at;
  if (first <= 0 || last <= 0) return {};
  const auto from = local_time_text(first).substr(0, date_length);
  const auto to = local_time_text(last).substr(0, date_length);
  return from == to ? ", " + from : fmt::format(", {} to {}", from, to);
}

/// "Measured on h100-8x, by megatron."
std::string hardware_of(const History& history) {
  std::set<std::string> clusters;
  std::set<std::string> runners;
  for (const auto& series : history.series) {
    for (const auto& point : series.points) {
      clusters.insert(point.run.cluster);
      runners.insert(point.run.runner);
    }
  }
  clusters.erase("");
  runners.erase("");
  if (clusters.empty() || runners.empty()) return {};
  return fmt::format(
      "Measured on {}, by {}. ", fmt::join(clusters, ", "), fmt::join(runners, ", "));
}

Chart chart_of_series(const HistorySeries& series) {
  Chart chart{printable(series.title),
      {.title = "measurements, the oldest first" + dates_of(series), .whole = true},
      {series.unit, "tokens_per_s_per_gpu", false, false, {}}};
  ChartSeries measured{
      "measured", {}, {Ink::none, category_colour(number_of(ColourRole::measured))}};
  measured.colour = number_of(ColourRole::measured);
  constexpr auto derived = number_of(ColourRole::derived);
  ChartSeries level{"level", {}, {Ink::none, category_colour(derived)}, true, false};
  level.colour = derived;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const auto place = static_cast<double>(i + 1);
    measured.points.push_back(
        {place, series.points[i].run.measured.speed, printable(point_sentence(series, i))});
    // A step stands between two points, not as a slope from one to the other.
    const bool is_change = std::any_of(series.answer.changes.begin(), series.answer.changes.end(),
        [i](const SeriesChange& change) { return change.first == i; });
    if (is_change) {
      level.points.push_back({place - 0.5, series.answer.levels[i - 1]});
      level.points.push_back({place - 0.5, series.answer.levels[i]});
    }
    level.points.push_back({place, series.answer.levels[i]});
  }
  // One point has no level, and neither have points that differ too much.
  if (series.points.size() > 1 && series.answer.levelled) chart.series.push_back(std::move(level));
  chart.series.push_back(std::move(measured));
  return chart;
}

/// " 6 series look slower, by up to 53 %; more runs would decide."; empty: none does.
std::string undecided_losses(const History& history) {
  std::int64_t count = 0;
  double most = 0;
  for (const auto& series : history.series) {
    const auto& verdict = series.verdict();
    if (verdict.difference != Difference::undecided || -verdict.share <= series.answer.resolve)
      continue;
    ++count;
    most = std::max(most, -verdict.share);
  }
  if (count == 0) return {};
  return fmt::format(" {} series look{} slower, by up to {}; more runs would decide.", count,
      count == 1 ? "s" : "", percent_text(most));
}

/// Answer of the page: series that became slower, since when and by what. Those that lost most have
/// a line each.
std::string history_answer(const History& history) {
  constexpr std::ptrdiff_t most = 5;
  const auto slower = std::count_if(history.series.begin(), history.series.end(),
      [](const HistorySeries& series) { return series.loss > 0; });
  if (slower == 0)
    return fmt::format("<p>No series is proven slower.{}</p>\n", undecided_losses(history));
  std::string lines;
  for (const auto& series :
      std::span(history.series).first(static_cast<std::size_t>(std::min(slower, most))))
    lines += fmt::format("{}<b>{}</b> is {} below its best. {}.", lines.empty() ? "" : "<br>\n",
        xml_escaped(series.title), percent_text(series.loss),
        xml_escaped(history_sentence(series)));
  if (slower > most) lines += fmt::format("<br>\n{} more lost less.", slower - most);
  return fmt::format("<p class=\"note\">{}</p>\n", lines);
}

std::string series_figure(const HistorySeries& series) {
  return fmt::format("<div>\n<h3>{}</h3>\n<p>{}</p>\n{}</div>\n", xml_escaped(series.title),
      xml_escaped(history_sentence(series)), chart_figure(chart_of_series(series), ""));
}

}  // namespace

std::string history_page(const History& history, const std::string& made) {
  std::string body = "<main>\n<header>\n<h1>Speed over time</h1>\n";
  body += fmt::format("<p class=\"sub\">{} {}</p>\n</header>\n",
      xml_escaped(history_summary(history)), xml_escaped(hardware_of(history) + made));
  if (!history.series.empty()) body += history_answer(history);
  body +=
      "<section>\n<h2>Series, the largest loss first, then what looks slower</h2>\n<p "
      "class=\"faint\">A loss is how far the newest level lies below the best one. A level is what "
      "fits the points: it steps where a change is sure, and slopes where a series drifts. Axes do "
      "not begin at 0.</p>\n<div class=\"small-charts\">\n";
  for (std::size_t i = 0; i < std::min(most_charts, history.series.size()); ++i)
    body += series_figure(history.series[i]);
  body += "</div>\n";
  if (history.series.size() > most_charts)
    body += fmt::format(
        "<p class=\"faint\">{} more are in the table.</p>\n", history.series.size() - most_charts);
  auto table = history_table(history, true);
  // The charts show it better.
  const auto spark = std::find(table.columns.begin(), table.columns.end(), "history");
  const auto place = spark - table.columns.begin();
  table.columns.erase(spark);
  for (auto& row : table.rows)
    row.erase(row.begin() + place);
  body += "</section>\n<section>\n<h2>All series as a table</h2>\n" +
      html_table(table, "Series, the largest loss first") + "</section>\n";
  return html_page("Speed over time",
      body + "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n", PageScript::whole);
}

Drawing history_picture(const History& history) {
  std::vector<Drawing> drawings;
  for (std::size_t i = 0; i < std::min(most_in_picture, history.series.size()); ++i) {
    const auto& series = history.series[i];
    auto chart = chart_of_series(series);
    constexpr double height = 220;
    chart.height = height;
    const auto& verdict = series.verdict();
    chart.title += series.since() < series.points.size()
        ? fmt::format(": {} by {}", verdict_words(verdict), percent_text(std::abs(verdict.share)))
        : fmt::format(": {}", word_of(verdict.difference));
    drawings.push_back(chart_picture(chart));
  }
  return stacked(std::move(drawings));
}

}  // namespace shardsweep
