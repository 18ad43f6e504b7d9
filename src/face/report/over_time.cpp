// SPDX-License-Identifier: Apache-2.0
// What a page shows over all cells: scaling, how the best was found, what the nodes were used
// for.
#include "picture/svg.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// Adds the best layout of each cell: its share of the tokens/s that perfect scaling from the
/// smallest measured world would give.
void add_model(Chart& chart, Table& table, const ReportView& view,
    const std::vector<const PageCell*>& cells, std::size_t number) {
  const auto& name = view.heatmap().rows[cells.front()->row];
  ChartSeries measured{name, {}, {}, true};
  measured.colour = number;
  const double first = cells.front()->answer.layouts.front().tokens_per_s_per_gpu;
  for (const auto* cell : cells) {
    const auto& best = cell->answer.layouts.front();
    const auto gpus = static_cast<double>(view.trials[cell->trials.front()].gpus);
    const double speed = best.tokens_per_s_per_gpu;
    measured.points.push_back({gpus, speed / first,
        fmt::format("{}, {} GPUs: {} tokens/s, {} of perfect scaling, with {}", name, gpus,
            amount_text(speed * gpus), percent_text(speed / first), best.name)});
    table.rows.push_back({name, static_cast<std::int64_t>(gpus), best.name, speed * gpus,
        speed / first, 1e9 / speed / seconds_per_hour});
  }
  chart.series.push_back(std::move(measured));
}

struct BusySpan {
  double from = 0;
  double to = 0;
  std::string outcome{};
};

/// Attempts of an allocation, from its claim to its end.
struct LifeOfAllocation {
  std::string name;
  double from = 0;
  double to = 0;
  double gpus = 1;
  std::vector<BusySpan> spans;
};

std::vector<LifeOfAllocation> lives_of(const ReportFacts& facts) {
  std::map<std::int64_t, LifeOfAllocation> lives;
  for (const ReportedAllocation& one : facts.allocations) {
    lives[one.id] = {.name = one.job_name,
        .from = static_cast<double>(one.claimed_at),
        .to = static_cast<double>(std::max(one.ended_at, one.last_beat)),
        .gpus = static_cast<double>(std::max<std::int64_t>(one.nodes * one.slots_per_node, 1)),
        .spans = {}};
  }
  for (const ReportedAttempt& attempt : facts.attempts) {
    const auto life = lives.find(attempt.allocation);
    if (life == lives.end()) continue;
    const auto started = static_cast<double>(attempt.started_at);
    const auto ended = static_cast<double>(attempt.ended_at);
    const double to = ended > 0 ? ended : std::max(life->second.to, started);
    life->second.spans.push_back({started, to, attempt.outcome});
    life->second.to = std::max(life->second.to, to);
  }
  std::vector<LifeOfAllocation> found;
  for (auto& [id, life] : lives) {
    if (life.to > life.from) found.push_back(std::move(life));
  }
  std::stable_sort(
      found.begin(), found.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  return found;
}

struct TimeUse {
  std::map<std::string, double> gpu_seconds;  ///< GPU-seconds by outcome
  double start_up = 0;
  double idle = 0;
  double total = 0;
};

TimeUse use_of(const std::vector<LifeOfAllocation>& lives) {
  TimeUse use;
  for (const auto& life : lives) {
    const double weight = life.gpus * 1e-6;
    double busy_to = life.from;
    bool first = true;
    for (const auto& span : life.spans) {
      const double from = std::max(span.from, busy_to);
      (first ? use.start_up : use.idle) += std::max(from - busy_to, 0.0) * weight;
      first = false;
      use.gpu_seconds[span.outcome] += std::max(span.to - from, 0.0) * weight;
      busy_to = std::max(busy_to, span.to);
    }
    use.idle += std::max(life.to - busy_to, 0.0) * weight;
    use.total += (life.to - life.from) * weight;
  }
  return use;
}

/// A bar per allocation: from its claim to its end, attempts in the colours of their outcomes.
/// Neighbours of one colour become one.
std::string timeline(const std::vector<LifeOfAllocation>& lives, std::size_t most) {
  const double from = lives.front().from;
  double to = from;
  for (const auto& life : lives)
    to = std::max(to, life.to);
  const double percent = 100 / std::max(to - from, 1.0);
  std::string out = "<div class=\"timeline\">\n";
  for (std::size_t i = 0; i < std::min(lives.size(), most); ++i) {
    const auto& life = lives[i];
    out += fmt::format(
        "<div><span>{}</span><div class=\"life\" role=\"img\" aria-label=\"{}\"><i class=\"rest\" "
        "style=\"left:{:.2f}%;width:{:.2f}%\"></i>",
        xml_escaped(life.name),
        xml_escaped(fmt::format("{}: {} in {}", life.name,
            counted(static_cast<std::int64_t>(life.spans.size()), "attempt"),
            duration_text((life.to - life.from) * 1e-6))),
        (life.from - from) * percent, (life.to - life.from) * percent);
    double left = 0;
    double right = 0;
    std::optional<std::size_t> colour;
    const auto put = [&] {
      if (colour)
        out += fmt::format("<i class=\"k{}\" style=\"left:{:.2f}%;width:{:.2f}%\"></i>", *colour,
            left, right - left);
    };
    for (const auto& span : life.spans) {
      const double begin = (span.from - from) * percent;
      constexpr double seen_gap = 0.1;
      if (outcome_colour(span.outcome) != colour || begin - right > seen_gap) {
        put();
        left = begin;
        colour = outcome_colour(span.outcome);
      }
      right = std::max((span.to - from) * percent, begin);
    }
    put();
    out += "</div></div>\n";
  }
  return out +
      fmt::format(
          "<div><span></span><div "
          "class=\"ends\"><span>{}</span><span>{}</span></div></div></div>\n",
          xml_escaped(local_time_text(static_cast<std::int64_t>(from))),
          xml_escaped(local_time_text(static_cast<std::int64_t>(to))));
}

/// Legend of the timeline's colours.
std::string use_keys(const TimeUse& use) {
  std::string out = "<ul class=\"keys\">";
  for (const auto& [outcome, seconds] : use.gpu_seconds)
    out += fmt::format("<li><span class=\"key k{}\"></span>{}</li>", outcome_colour(outcome),
        xml_escaped(outcome_words(outcome)));
  return out +
      "<li><span class=\"key rest\"></span>start-up, checks, controls and idle</li></ul>\n";
}

/// Trials in the order in which they ended.
std::vector<const ReportedTrial*> by_end(
    const std::vector<ReportedTrial>& trials, const PageCell& cell) {
  std::vector<const ReportedTrial*> order;
  for (const auto row : cell.trials) {
    if (trials[row].ended_at > 0) order.push_back(&trials[row]);
  }
  std::stable_sort(order.begin(), order.end(),
      [](const auto* a, const auto* b) { return a->ended_at < b->ended_at; });
  return order;
}

/// The best single run so far over what the cell's trials have cost, as a share of the answer's
/// speed.
ChartSeries history_of(const ReportView& view, const PageCell& cell) {
  const auto name = place_of(view.heatmap(), cell.row, cell.column);
  ChartSeries series{name, {}, {}, true};
  const double answer = cell.answer.layouts.front().tokens_per_s_per_gpu;
  double hours = 0;
  double best = 0;
  for (const auto* trial : by_end(view.trials, cell)) {
    hours += trial->gpu_seconds.value_or(0) / seconds_per_hour;
    const auto speed = trial->tokens_per_s_per_gpu.value_or(0);
    if (speed <= best || !trial->mark.empty()) continue;
    if (best > 0) series.points.push_back({hours, best / answer});
    best = speed;
    series.points.push_back({hours, best / answer, fmt::format("{}: {}", name, trial->layout)});
  }
  if (hours <= 0 || best <= 0) return {};
  series.points.push_back({hours, best / answer});
  return series;
}

}  // namespace

std::string scaling_section(const ReportView& view) {
  if (view.heatmap().column_name != "nodes" && view.heatmap().column_name != "gpus") return {};
  std::map<std::size_t, std::vector<const PageCell*>> rows;
  for (const auto& cell : view.cells) {
    if (!cell.answer.layouts.empty()) rows[cell.row].push_back(&cell);
  }
  std::erase_if(rows, [](const auto& row) { return row.second.size() < 2; });
  if (rows.empty()) return {};
  Chart chart{"Scaling of the fastest layouts", {"GPUs", "", true, false, {}, true},
      {"tokens/s, of perfect scaling from the smallest run", "efficiency_share", false, true, {}}};
  Table table{{view.heatmap().row_name, "gpus", "layout", "tokens_per_s", "efficiency_share",
                  "gpu_hours_per_billion_tokens"},
      {}};
  std::size_t number = 0;
  for (const auto& [row, cells] : rows)
    add_model(chart, table, view, cells, number++);
  ChartSeries perfect{"perfect scaling", {}, {}, true, false, true};
  perfect.colour = number_of(ColourRole::derived);
  for (const auto& series : chart.series) {
    for (const auto& point : series.points)
      perfect.points.push_back({point.x, 1});
  }
  std::sort(perfect.points.begin(), perfect.points.end(),
      [](const auto& a, const auto& b) { return a.x < b.x; });
  chart.series.push_back(std::move(perfect));
  return section("Scaling",
      chart_figure(
          chart, "The fastest layout of each size; a doubt about its speed holds here too.") +
          "<details><summary>The numbers, and what a billion tokens cost</summary>\n" +
          html_table(table, "Scaling of the fastest layouts") + "</details>\n");
}

std::string history_section(const ReportView& view) {
  Chart chart{"How the best was found", {"GPU-hours spent in the cell", "", true, false, {}},
      {"best run so far, of the cell's best", "best_share", false, true, {}}};
  constexpr std::size_t most_cells = 8;
  std::vector<const PageCell*> order;
  for (const auto& cell : view.cells) {
    if (!cell.answer.layouts.empty()) order.push_back(&cell);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->answer.layouts.size() > b->answer.layouts.size();
  });
  for (const auto* cell : order) {
    auto series = history_of(view, *cell);
    if (series.points.size() < 2 || chart.series.size() == most_cells) continue;
    series.colour = chart.series.size();
    chart.series.push_back(std::move(series));
  }
  std::string body;
  if (!chart.series.empty())
    body += chart_figure(chart,
        fmt::format("GPU-hours spent until each new best{}. A single run may lie above the median "
                    "that ranks its layout.",
            order.size() > most_cells
                ? fmt::format(", in the {} cells with most layouts", most_cells)
                : ""));
  if (!view.facts().bounds.rows.empty())
    body += html_table(view.facts().bounds, "What was still possible when searches stopped");
  return section("How the best was found", body);
}

std::string use_section(const ReportView& view) {
  const auto lives = lives_of(view.facts());
  if (lives.empty()) return {};
  constexpr std::size_t most_bars = 40;
  const auto use = use_of(lives);
  Table table{{"use", "cost", "used_share"}, {}};
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds > 0) table.rows.push_back({name, gpu_time_text(seconds), seconds / use.total});
  };
  for (const auto& [outcome, seconds] : use.gpu_seconds)
    add("trials: " + outcome_words(outcome), seconds);
  add("start-up of allocations", use.start_up);
  add("idle, checks and controls", use.idle);
  std::string more;
  if (lives.size() > most_bars)
    more = fmt::format(
        "<p class=\"faint\">The first {} of {} allocations.</p>\n", most_bars, lives.size());
  return section("Use of the nodes",
      html_table(table, "Time of the allocations' GPUs") + timeline(lives, most_bars) +
          use_keys(use) + more);
}

}  // namespace shardsweep
