// SPDX-License-Identifier: Apache-2.0
// Decision: A point of a cell is its best layout under one software in one sweep, because the
// best of more layouts is faster by luck: sweeps are compared as they were planned. What
// changed at a change point is named only if its new value was not there before: else it is
// innocent.
#include "show/history.hpp"

#include "show/cell_text.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

constexpr double microseconds_per_day = 86400e6;

/// Cell, cluster, runner, layout.
using SeriesKey = std::tuple<CellKey, std::string, std::string, std::string>;

SeriesKey key_of(const HistoryRun& run, HistoryOf of) {
  return {run.cell, run.cluster, run.runner, of == HistoryOf::layout ? run.layout : std::string()};
}

constexpr std::size_t layout_of_key = std::tuple_size_v<SeriesKey> - 1;

bool is_older(const HistoryRun& a, const HistoryRun& b) {
  return std::pair(a.ended_at, a.id) < std::pair(b.ended_at, b.id);
}

double speed_of(const HistoryRun& run) {
  return run.measured.speed;
}

/// Run of median speed: of an even number the lower of the middle two, as in every answer.
HistoryPoint median_point(std::vector<HistoryRun> runs) {
  std::stable_sort(runs.begin(), runs.end(),
      [](const HistoryRun& a, const HistoryRun& b) { return speed_of(a) < speed_of(b); });
  const auto count = static_cast<std::int64_t>(runs.size());
  return {std::move(runs[(runs.size() - 1) / 2]), count};
}

HistoryPoint best_point(const std::vector<HistoryRun>& runs) {
  std::map<std::string, std::vector<HistoryRun>> layouts;
  for (const auto& run : runs)
    layouts[run.layout].push_back(run);
  HistoryPoint best;
  std::set<std::string> all;
  for (auto& [layout, of_layout] : layouts) {
    auto point = median_point(std::move(of_layout));
    all.insert(layout);
    if (speed_of(point.run) > speed_of(best.run)) best = std::move(point);
  }
  best.layouts = std::move(all);
  return best;
}

/// Runs that were made to be compared with each other.
std::string time_of(const HistoryRun& run) {
  std::string text = fmt::format("{}\x1f{}", run.sweep, run.remeasured);
  for (const auto& [name, value] : run.software)
    text += fmt::format("\x1f{}\x1f{}", name, value);
  return text;
}

std::vector<HistoryPoint> points_of_cell(const std::vector<HistoryRun>& runs) {
  std::map<std::string, std::vector<HistoryRun>> groups;
  for (const auto& run : runs)
    groups[time_of(run)].push_back(run);
  std::vector<HistoryPoint> points;
  points.reserve(groups.size());
  for (const auto& [time, group] : groups)
    points.push_back(best_point(group));
  std::sort(points.begin(), points.end(),
      [](const HistoryPoint& a, const HistoryPoint& b) { return is_older(a.run, b.run); });
  return points;
}

/// Layouts to follow, by cell: those that were measured again, and those that were the best of
/// their cell before.
std::map<SeriesKey, std::set<std::string>> followed_layouts(const std::vector<HistoryRun>& runs) {
  std::map<SeriesKey, std::vector<HistoryRun>> before;
  std::map<SeriesKey, std::set<std::string>> followed;
  for (const auto& run : runs) {
    if (run.remeasured > 0) followed[key_of(run, HistoryOf::cell)].insert(run.layout);
  }
  if (followed.empty()) return followed;
  for (const auto& run : runs) {
    const auto key = key_of(run, HistoryOf::cell);
    if (run.remeasured == 0 && followed.contains(key)) before[key].push_back(run);
  }
  for (const auto& [key, of_cell] : before) {
    for (const auto& point : points_of_cell(of_cell))
      followed[key].insert(point.run.layout);
  }
  return followed;
}

/// Facts that may have changed at a point.
HistoryFacts facts_of(const HistoryPoint& point, HistoryOf of) {
  auto facts = point.run.software;
  facts["nodes"] = point.run.measured.nodes;
  if (of == HistoryOf::cell) {
    facts["best layout"] = point.run.layout;
    // The best of more layouts may be faster without anything having become so.
    facts["layouts measured"] = grouped(std::ssize(point.layouts));
  }
  return facts;
}

std::string value_of(const HistoryFacts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string() : found->second;
}

/// Hashes are known by their beginning.
std::string brief_value(const std::string& value) {
  constexpr std::size_t longest = 40;
  if (value.empty()) return "unknown";
  if (value.size() <= longest) return value;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U)
    --end;
  return value.substr(0, end) + "…";
}

std::string changed_text(
    const std::vector<HistoryPoint>& points, HistoryOf of, const SeriesChange& change) {
  const auto before = facts_of(points[change.first - 1], of);
  const auto after = facts_of(points[change.first], of);
  std::set<std::string> known;
  for (const auto* facts : {&before, &after}) {
    for (const auto& [name, value] : *facts)
      known.insert(name);
  }
  // Causes first: which layout is the best follows from them.
  std::vector<std::string> names(known.begin(), known.end());
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) {
    return name != "best layout" && name != "layouts measured" && name != "nodes";
  });
  std::map<std::string, std::set<std::string>> values;
  for (auto i = change.from; i < change.first; ++i) {
    const auto facts = facts_of(points[i], of);
    for (const auto& name : names)
      values[name].insert(value_of(facts, name));
  }
  std::vector<std::string> changed;
  for (const auto& name : names) {
    const auto value = value_of(after, name);
    // Nodes that are others each time are not what changed.
    const bool always_others = name == "nodes" && values[name].size() > 1;
    if (values[name].contains(value) || always_others || (name == "nodes" && value.empty()))
      continue;
    changed.push_back(
        fmt::format("{} {} -> {}", name, brief_value(value_of(before, name)), brief_value(value)));
  }
  return fmt::format("{}", fmt::join(changed, ", "));
}

/// The best of other layouts is no change of speed: what became the best has to have been
/// measured before, and what was it, afterwards.
void doubt_other_layouts(HistorySeries& series) {
  for (auto& change : series.answer.changes) {
    auto& verdict = change.verdict;
    const auto& before = series.points[change.first - 1];
    const auto& after = series.points[change.first];
    const bool faster = verdict.share > 0;
    if (verdict.difference == Difference::same) continue;
    const auto& layout = faster ? after.run.layout : before.run.layout;
    if ((faster ? before : after).layouts.contains(layout)) continue;
    verdict.difference = Difference::undecided;
    verdict.open = Open::mixed_state;
    verdict.reason =
        fmt::format("{} was not measured {}, so the change of layout may be the reason; {}", layout,
            faster ? "before" : "afterwards", verdict.reason);
    series.answer.points[change.first] = verdict;
  }
}

std::string title_of_series(const HistoryRun& run, HistoryOf of) {
  std::string title = fmt::format("{}, {}", run.cell.model,
      run.cell.nodes > 0 ? counted(run.cell.nodes, "node") : counted(run.cell.gpus, "GPU"));
  if (run.cell.seq_len > 0) title += fmt::format(", seq_len {}", run.cell.seq_len);
  if (!run.cell.vars.empty()) title += ", " + run.cell.vars;
  return of == HistoryOf::layout ? title + ": " + run.layout : title;
}

std::vector<SeriesPoint> measured_points(HistorySeries& series, bool by_time) {
  std::vector<SeriesPoint> measured;
  const auto begin = series.points.front().run.ended_at;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    auto& point = series.points[i].run;
    point.measured.at = by_time ? static_cast<double>(point.ended_at - begin) / microseconds_per_day
                                : static_cast<double>(i);
    measured.push_back(point.measured);
  }
  return measured;
}

/// Runs of each layout, the oldest first.
std::vector<std::vector<SeriesPoint>> runs_of_layouts(const std::vector<HistoryRun>& runs) {
  std::map<SeriesKey, std::vector<SeriesPoint>> layouts;
  for (const auto& run : runs)
    if (speed_of(run) > 0) layouts[key_of(run, HistoryOf::layout)].push_back(run.measured);
  std::vector<std::vector<SeriesPoint>> all;
  for (auto& [key, points] : layouts)
    all.push_back(std::move(points));
  return all;
}

std::string when_text(const HistoryRun& run) {
  return run.ended_at > 0 ? local_time_text(run.ended_at) : run.sweep;
}

std::vector<Value> cell_values(const HistoryRun& run) {
  return {run.cell.model, run.cell.seq_len, run.cell.nodes, run.cell.gpus, run.cluster,
      run.cell.vars.empty() ? Value() : Value(run.cell.vars), run.runner};
}

constexpr std::array<const char*, 7> cell_names{
    "model", "seq_len", "nodes", "gpus", "cluster", "vars", "runner"};

Value text_or_none(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}

Value time_or_none(Timestamp at) {
  return at > 0 ? Value(at) : Value();
}

/// Evidence of a verdict, and what is not in the series any more.
std::string note_of(const SpeedVerdict& verdict, const HistoryRun& run) {
  if (run.replaced <= 0) return verdict.reason;
  return fmt::format("{}; an earlier result of this trial was replaced: {}", verdict.reason,
      amount_text(run.replaced));
}

std::vector<double> speeds_of(const HistorySeries& series) {
  std::vector<double> speeds;
  for (const auto& point : series.points)
    speeds.push_back(speed_of(point.run));
  return speeds;
}

}  // namespace

std::size_t HistorySeries::since() const {
  const auto* change = answer.standing();
  return change == nullptr ? points.size() : change->first;
}

const SpeedVerdict& HistorySeries::verdict() const {
  const auto* change = answer.standing();
  return change == nullptr ? answer.points.back() : change->verdict;
}

std::string HistorySeries::reason() const {
  const auto* change = answer.standing();
  return change == nullptr ? newest_reason
                           : reasons[static_cast<std::size_t>(change - answer.changes.data())];
}

History history_of(std::vector<HistoryRun> runs, HistoryOf of, double resolve) {
  History history{.of = of};
  history.by_time =
      std::all_of(runs.begin(), runs.end(), [](const HistoryRun& run) { return run.ended_at > 0; });
  std::sort(runs.begin(), runs.end(), is_older);
  for (auto& run : runs)
    run.measured.time = time_of(run);
  const auto followed = followed_layouts(runs);
  std::map<SeriesKey, std::vector<HistoryRun>> by_key;
  for (const auto& run : runs) {
    if (speed_of(run) <= 0) continue;
    // A cell of which layouts were measured again is followed by these, each for itself.
    const auto found = followed.find(key_of(run, HistoryOf::cell));
    if (of == HistoryOf::layout || found == followed.end()) {
      by_key[key_of(run, of)].push_back(run);
    } else if (found->second.contains(run.layout)) {
      by_key[key_of(run, HistoryOf::layout)].push_back(run);
    }
  }
  std::vector<std::vector<SeriesPoint>> measured;
  for (auto& [key, of_key] : by_key) {
    auto& series = history.series.emplace_back();
    // A key without a layout is the key of a cell.
    series.of = std::get<layout_of_key>(key).empty() ? HistoryOf::cell : HistoryOf::layout;
    if (series.of == HistoryOf::cell) {
      series.points = points_of_cell(of_key);
    } else {
      for (auto& run : of_key)
        series.points.push_back({std::move(run)});
    }
    series.title = title_of_series(series.points.back().run, series.of);
    measured.push_back(measured_points(series, history.by_time));
  }
  const SeriesSettings settings{resolve, noise_of_others(measured, runs_of_layouts(runs))};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    auto& series = history.series[i];
    series.answer = answer_of_series(measured[i], settings);
    if (series.of == HistoryOf::cell) doubt_other_layouts(series);
    for (const auto& change : series.answer.changes)
      series.reasons.push_back(changed_text(series.points, series.of, change));
    const auto newest = series.points.size() - 1;
    const auto from = series.answer.changes.empty() ? 0 : series.answer.changes.back().first;
    if (newest > 0 && newest == from) series.newest_reason = series.reasons.back();
    if (newest > from)
      series.newest_reason = changed_text(series.points, series.of, {newest, from, newest + 1});
    series.loss = series.answer.loss();
  }
  std::stable_sort(history.series.begin(), history.series.end(), [](const auto& a, const auto& b) {
    return a.loss != b.loss ? a.loss > b.loss : a.verdict().share < b.verdict().share;
  });
  return history;
}

std::string spark_text(const std::vector<double>& values, std::size_t width, bool utf8) {
  constexpr std::array<const char*, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 8> plain{"_", ".", ",", "-", "~", "=", "+", "#"};
  // Least range of the heights, as a share of the fastest: smaller noise looks flat.
  constexpr double flat = 0.02;
  const std::vector<double> shown(
      values.end() - static_cast<std::ptrdiff_t>(std::min(width, values.size())), values.end());
  if (shown.empty()) return {};
  const auto [low, high] = std::minmax_element(shown.begin(), shown.end());
  const double range = std::max(*high - *low, *high * flat);
  const double bottom = (*high + *low - range) / 2;
  std::string text;
  for (const double value : shown) {
    const auto step =
        static_cast<std::size_t>(std::clamp(std::floor((value - bottom) / range * 8), 0.0, 7.0));
    text += utf8 ? blocks[step] : plain[step];
  }
  return text;
}

Table history_table(const History& history, bool utf8) {
  constexpr std::size_t spark_width = 24;
  Table table{{cell_names.begin(), cell_names.end()}, {}};
  table.columns.insert(table.columns.end(),
      {"layout", "points", "tokens_per_s_per_gpu", "history", "verdict", "change_share", "since",
          "changed", "reason"});
  for (const auto& series : history.series) {
    const auto& last = series.points.back().run;
    const auto& verdict = series.verdict();
    const auto since = series.since();
    const bool changed = since < series.points.size();
    auto& row = table.rows.emplace_back(cell_values(last));
    row.insert(row.end(),
        {last.layout, static_cast<std::int64_t>(series.points.size()), speed_of(last),
            spark_text(speeds_of(series), spark_width, utf8),
            std::string(word_of(verdict.difference)),
            series.points.size() > 1 ? Value(verdict.share) : Value(),
            changed ? time_or_none(series.points[since].run.ended_at) : Value(),
            text_or_none(series.reason()),
            text_or_none(
                note_of(verdict, series.points[changed ? since : series.points.size() - 1].run))});
  }
  return table;
}

Table history_points(const History& history) {
  Table table{{cell_names.begin(), cell_names.end()}, {}};
  table.columns.insert(table.columns.end(),
      {"layout", "sweep", "trial", "ended_at", "tokens_per_s_per_gpu", "runs", "level", "change",
          "verdict", "change_share", "changed", "reason", "software", "hosts"});
  for (const auto& series : history.series) {
    std::size_t next = 0;  // change
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const auto& run = series.points[i].run;
      const auto& changes = series.answer.changes;
      const bool is_change = next < changes.size() && changes[next].first == i;
      const auto& verdict = series.answer.points[i];
      const auto software = join_texts(run.software, ", ",
          [](const auto& fact) { return fmt::format("{} {}", fact.first, fact.second); });
      auto& row = table.rows.emplace_back(cell_values(run));
      row.insert(row.end(),
          {run.layout, run.sweep, run.trial, time_or_none(run.ended_at), speed_of(run),
              series.points[i].runs, series.answer.levels[i], std::int64_t{is_change ? 1 : 0},
              std::string(word_of(verdict.difference)), i > 0 ? Value(verdict.share) : Value(),
              is_change                           ? text_or_none(series.reasons[next])
                  : i + 1 == series.points.size() ? text_or_none(series.newest_reason)
                                                  : Value(),
              text_or_none(note_of(verdict, run)), text_or_none(software),
              text_or_none(run.measured.nodes)});
      if (is_change) ++next;
    }
  }
  return table;
}

std::string history_summary(const History& history) {
  std::array<std::int64_t, 4> counts{};
  std::size_t points = 0;
  for (const auto& series : history.series) {
    ++counts[static_cast<std::size_t>(series.verdict().difference)];
    points += series.points.size();
  }
  std::string text = fmt::format("{} series with {}", grouped(std::ssize(history.series)),
      counted(static_cast<std::int64_t>(points), "point"));
  if (history.series.size() > 1) text += " in all";
  for (const auto difference :
      {Difference::slower, Difference::faster, Difference::same, Difference::undecided}) {
    const auto count = counts[static_cast<std::size_t>(difference)];
    if (count > 0)
      text += fmt::format("{} {} {}", text.find(':') == std::string::npos ? ":" : ",",
          grouped(count), word_of(difference));
  }
  return text + ".";
}

std::string history_sentence(const HistorySeries& series) {
  const auto& verdict = series.verdict();
  const auto since = series.since();
  const auto reason = series.reason();
  if (since == series.points.size()) {
    if (series.points.size() < 2) return "measured once";
    const auto& levels = series.answer.levels;
    const std::string steady = series.answer.drift == 0
        ? "No sure change"
        : fmt::format("No sudden change, but a drift of {} from first to last",
              percent_text(levels.back() / levels.front() - 1));
    return fmt::format("{} in {} measurements. The newest is {}: {} {}{}; {}", steady,
        series.points.size(), word_of(verdict.difference), percent_text(std::abs(verdict.share)),
        verdict.share < 0 ? "slower" : "faster",
        reason.empty() ? std::string() : fmt::format(" ({})", reason), verdict.reason);
  }
  const bool recovering = verdict.share > 0 && series.loss > 0;
  const bool in_doubt = verdict.difference == Difference::undecided;
  return fmt::format("{} by {} since {}: {}{}{}", verdict_words(verdict),
      percent_text(std::abs(verdict.share)), when_text(series.points[since].run),
      reason.empty() ? std::string("no other known change") : reason,
      in_doubt ? "; UNDECIDED: " + verdict.reason : std::string(),
      recovering ? fmt::format("; still {} below its best", percent_text(series.loss)) : "");
}

std::string history_doubts(const History& history) {
  constexpr std::size_t most = 3;
  std::vector<std::string> lines;
  for (const auto& series : history.series) {
    const auto& verdict = series.verdict();
    const bool in_doubt = series.since() < series.points.size() &&
        verdict.difference == Difference::undecided && verdict.share < 0;
    if (!in_doubt) continue;
    if (lines.size() == most) {
      lines.emplace_back("More look slower: see the table.");
      break;
    }
    lines.push_back(fmt::format("{} {}.", series.title, history_sentence(series)));
  }
  return fmt::to_string(fmt::join(lines, "\n"));
}

std::string verdict_words(const SpeedVerdict& verdict) {
  if (verdict.difference != Difference::undecided) return std::string(word_of(verdict.difference));
  return verdict.share < 0 ? "looks slower" : "looks faster";
}

std::string point_sentence(const HistorySeries& series, std::size_t point) {
  const auto& run = series.points[point].run;
  const auto& verdict = series.answer.points[point];
  std::string software;
  for (const auto& [name, value] : run.software)
    software += fmt::format(", {} {}", name, brief_value(value));
  const auto layout = run.layout.empty() ? std::string() : " with " + run.layout;
  return fmt::format("{}: {} {}{}{}. {}: {}", when_text(run), amount_text(speed_of(run)),
      series.unit, layout, software, word_of(verdict.difference), note_of(verdict, run));
}

}  // namespace shardsweep
