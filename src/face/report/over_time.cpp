// SPDX-License-Identifier: Apache-2.0
// What a page shows over all cells: predictions, scaling, the search's way, where time went.
#include "picture/svg.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

constexpr double seconds_per_hour = 3600;

std::string captioned(const Chart& chart, std::string_view caption) {
  return figure(svg_text(chart_picture(chart), SvgUse::page), caption);
}

double gpus_of(const Rows& trials, const CellLayouts& cell) {
  return trials.number(cell.trials.front(), "gpus").value_or(1);
}

/// Of the best layout of each cell: tokens/s over GPUs, and what linear scaling would give.
void add_model(Chart& chart, Table& table, const ReportView& view,
               const std::vector<const CellLayouts*>& cells) {
  const auto& name = view.heatmap.rows[cells.front()->row];
  ChartSeries measured{name, {}, {Ink::none, category_colour(chart.series.size() / 2)}, true};
  ChartSeries ideal{"", {}, measured.paint, true, false, true};
  const double first = cells.front()->layouts.front().ranked.value;
  for (const auto* cell : cells) {
    const auto& best = cell->layouts.front();
    const double gpus = gpus_of(view.trials, *cell);
    const double speed = best.ranked.value;
    measured.points.push_back({gpus, speed * gpus,
                               fmt::format("{}, {} GPUs: {} tokens/s with {}", name, gpus,
                                           amount_text(speed * gpus), best.name)});
    ideal.points.push_back({gpus, first * gpus});
    table.rows.push_back({name, static_cast<std::int64_t>(gpus), best.name, speed * gpus,
                          speed / first, 1e9 / speed / seconds_per_hour});
  }
  chart.series.push_back(std::move(measured));
  chart.series.push_back(std::move(ideal));
}

struct TimeUse {
  std::map<std::string, double> gpu_seconds;  ///< by outcome
  double start_up = 0;
  double idle = 0;
  double total = 0;
};

struct BusySpan {
  double from = 0;
  double to = 0;
  std::string outcome{};
};

/// What an allocation did, from its claim to its end.
struct LifeOfAllocation {
  std::string name;
  double from = 0;
  double to = 0;
  double gpus = 1;
  std::vector<BusySpan> spans;
};

std::vector<LifeOfAllocation> lives_of(const ReportFacts& facts) {
  const Rows allocations(facts.allocations);
  const Rows attempts(facts.attempts);
  std::map<std::int64_t, LifeOfAllocation> lives;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    auto& life = lives[allocations.integer(row, "id")];
    life.name = allocations.text(row, "job_name");
    life.from = static_cast<double>(allocations.integer(row, "claimed_at"));
    life.to = static_cast<double>(
        std::max(allocations.integer(row, "ended_at"), allocations.integer(row, "last_beat")));
    life.gpus = static_cast<double>(std::max<std::int64_t>(
        allocations.integer(row, "nodes") * allocations.integer(row, "slots_per_node"), 1));
  }
  for (std::size_t row = 0; row < attempts.size(); ++row) {
    const auto life = lives.find(attempts.integer(row, "allocation"));
    if (life == lives.end()) continue;
    const auto started = static_cast<double>(attempts.integer(row, "started_at"));
    const auto ended = static_cast<double>(attempts.integer(row, "ended_at"));
    const double to = ended > 0 ? ended : std::max(life->second.to, started);
    life->second.spans.push_back({started, to, attempts.text(row, "outcome")});
    life->second.to = std::max(life->second.to, to);
  }
  std::vector<LifeOfAllocation> found;
  for (auto& [id, life] : lives) {
    if (life.to > life.from) found.push_back(std::move(life));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.from < b.from; });
  return found;
}

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

std::size_t outcome_colour(const std::string& outcome) {
  if (outcome == "completed") return 2;
  if (outcome == "oom") return 5;
  if (outcome == "running") return 4;
  return 1;
}

/// A bar per allocation; neighbours of one colour become one rectangle.
Drawing timeline_picture(const std::vector<LifeOfAllocation>& lives, std::size_t most) {
  constexpr double width = 900;
  constexpr double label_width = 190;
  constexpr double bar = 10;
  double from = lives.front().from;
  double to = from;
  for (const auto& life : lives)
    to = std::max(to, life.to);
  const double scale = (width - label_width - 10) / std::max(to - from, 1.0);
  Drawing drawing{width, 8, "Allocations over time", {}, {}};
  for (std::size_t i = 0; i < std::min(lives.size(), most); ++i) {
    const auto& life = lives[i];
    const double y = drawing.height;
    const auto x = [&](double time) { return label_width + (time - from) * scale; };
    Group group;
    group.title = fmt::format("{}: {} attempts in {}", life.name, life.spans.size(),
                              duration_text((life.to - life.from) * 1e-6));
    constexpr std::size_t most_name = 28;
    drawing.groups.push_back(
        {{}, {}, {Label{4, y + 9, printable(life.name).substr(0, most_name), 9}}});
    group.shapes.emplace_back(Box{x(life.from),
                                  y,
                                  std::max(x(life.to) - x(life.from), 1.0),
                                  bar,
                                  {},
                                  {Ink::line},
                                  false});
    Box open{};
    for (const auto& span : life.spans) {
      const Colour colour = category_colour(outcome_colour(span.outcome));
      const double left = x(span.from);
      if (open.fill.colour == colour && left - (open.x + open.width) < 0.7) {
        open.width = std::max(open.width, x(span.to) - open.x);
        continue;
      }
      if (open.fill.colour) group.shapes.emplace_back(open);
      open =
          Box{left, y, std::max(x(span.to) - left, 0.7), bar, {Ink::none, colour}, {}, false};
    }
    if (open.fill.colour) group.shapes.emplace_back(open);
    drawing.groups.push_back(std::move(group));
    drawing.height += bar + 4;
  }
  drawing.groups.push_back(
      {{},
       {},
       {Label{label_width, drawing.height + 10,
              fmt::format("{} to {}", local_time_text(static_cast<std::int64_t>(from)),
                          local_time_text(static_cast<std::int64_t>(to))),
              9}}});
  drawing.height += 18;
  return drawing;
}

/// Trials in the order in which they ended, with what they have cost.
std::vector<std::size_t> by_end(const Rows& trials, const CellLayouts& cell) {
  std::vector<std::size_t> order;
  for (const auto row : cell.trials) {
    if (trials.integer(row, "ended_at") > 0) order.push_back(row);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return trials.integer(a, "ended_at") < trials.integer(b, "ended_at");
  });
  return order;
}

}  // namespace

std::string predicted_section(const ReportView& view) {
  Chart chart{"Predicted against measured",
              {"measured tokens/s/GPU", "tokens_per_s_per_gpu", true, false, {}},
              {"predicted tokens/s/GPU", "tokens_per_s_per_gpu", true, false, {}}};
  ChartSeries dots{"a trial", {}, {Ink::none, category_colour(0)}};
  std::vector<double> ratios;
  double least = 0;
  double most = 0;
  for (std::size_t row = 0; row < view.trials.size(); ++row) {
    const auto measured = view.trials.number(row, "tokens_per_s_per_gpu");
    const auto predicted = view.trials.number(row, "predicted_tokens_per_s_per_gpu");
    if (!measured || !predicted || *measured <= 0 || *predicted <= 0) continue;
    dots.points.push_back({*measured, *predicted, {}});
    least = ratios.empty() ? *measured : std::min(least, *measured);
    most = std::max(most, *measured);
    ratios.push_back(*measured / *predicted);
  }
  if (ratios.size() < 3) return {};
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  const auto caption = fmt::format(
      "Before anything ran. Measured over predicted: {:.2f} in the median, {:.2f} to {:.2f} "
      "for "
      "the middle 80 % of {} trials.",
      at(0.5), at(0.1), at(0.9), ratios.size());
  chart.series.push_back(std::move(dots));
  chart.series.push_back(
      {"equal", {{least, least}, {most, most}}, {Ink::accent}, true, false, true});
  return section("Predicted against measured", captioned(chart, caption));
}

std::string scaling_section(const ReportView& view) {
  std::map<std::size_t, std::vector<const CellLayouts*>> rows;
  for (const auto& cell : view.layouts.cells) {
    if (!cell.layouts.empty()) rows[cell.row].push_back(&cell);
  }
  std::erase_if(rows, [](const auto& row) { return row.second.size() < 2; });
  if (rows.empty()) return {};
  Chart chart{"Scaling of the fastest layouts",
              {"GPUs", "", true, false, {}},
              {"tokens/s", "tokens_per_s", true, false, {}}};
  Table table{{view.heatmap.row_name, "gpus", "layout", "tokens_per_s", "efficiency_share",
               "gpu_hours_per_billion_tokens"},
              {}};
  for (const auto& [row, cells] : rows)
    add_model(chart, table, view, cells);
  return section("Scaling", captioned(chart,
                                      "Dashed: as the smallest world measured, times its "
                                      "GPUs.") +
                                html_table(table, "Scaling, and what a billion tokens cost"));
}

std::string history_section(const ReportView& view) {
  Chart chart{"How the best was found",
              {"GPU-hours spent in the cell", "", false, true, {}},
              {"best so far, of the cell's best", "best_share", false, true, {}}};
  constexpr std::size_t most_cells = 8;
  for (const auto& cell : view.layouts.cells) {
    if (cell.layouts.empty() || chart.series.size() == most_cells) continue;
    const auto order = by_end(view.trials, cell);
    if (order.size() < 2) continue;
    const auto name = fmt::format("{} {}={}", view.heatmap.rows[cell.row],
                                  view.heatmap.column_name, view.heatmap.columns[cell.column]);
    ChartSeries series{name, {}, {Ink::none, category_colour(chart.series.size())}, true};
    double hours = 0;
    double best = 0;
    for (const auto row : order) {
      hours += view.trials.number(row, "gpu_seconds").value_or(0) / seconds_per_hour;
      const auto speed = view.trials.number(row, "tokens_per_s_per_gpu").value_or(0);
      if (speed <= best || !view.trials.text(row, "mark").empty()) continue;
      if (best > 0) series.points.push_back({hours, best / cell.layouts.front().ranked.value});
      best = speed;
      series.points.push_back({hours, best / cell.layouts.front().ranked.value,
                               fmt::format("{}: {}", name, view.trials.text(row, "layout"))});
    }
    series.points.push_back({hours, best / cell.layouts.front().ranked.value});
    if (hours > 0) chart.series.push_back(std::move(series));
  }
  std::string body;
  if (!chart.series.empty())
    body += captioned(chart,
                      "GPU-hours of attempts, in the order in which trials ended; a repeat "
                      "may lie above the median that ranks its layout.");
  if (!view.facts.bounds.rows.empty())
    body += html_table(view.facts.bounds, "Bounds with which searches have stopped");
  return section("The search's way", body);
}

std::string timeline_section(const ReportView& view) {
  const auto lives = lives_of(view.facts);
  if (lives.empty()) return {};
  constexpr std::size_t most_bars = 60;
  const auto use = use_of(lives);
  Table table{{"use", "gpu_hours", "used_share"}, {}};
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds > 0)
      table.rows.push_back({name, seconds / seconds_per_hour, seconds / use.total});
  };
  for (const auto& [outcome, seconds] : use.gpu_seconds)
    add("attempts: " + outcome, seconds);
  add("start-up of allocations", use.start_up);
  add("idle, checks and controls", use.idle);
  const auto caption = fmt::format(
      "{} of {}. Green: completed; orange: out of memory; vermilion: other failures; blue: "
      "running; empty: start-up, checks and idle.",
      std::min(lives.size(), most_bars),
      counted(static_cast<std::int64_t>(lives.size()), "allocation"));
  return section(
      "Where the allocations' time went",
      html_table(table, "GPU-hours of allocations by use") +
          figure(svg_text(timeline_picture(lives, most_bars), SvgUse::page), caption));
}

}  // namespace shardsweep
