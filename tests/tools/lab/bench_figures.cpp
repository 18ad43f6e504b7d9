// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/bench_figures.hpp"

#include "text/characters.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using BenchJson = nlohmann::json;

/// "2026-11-26T08:40:00Z" as microseconds.
std::optional<Timestamp> time_of_bench(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int end = 0;
  constexpr int parts = 6;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute,
          &second, &end) != parts ||
      end != static_cast<int>(text.size()))
    return std::nullopt;
  const std::chrono::year_month_day date{
      std::chrono::year{year}, std::chrono::month{month}, std::chrono::day{day}};
  if (!date.ok()) return std::nullopt;
  const auto at = std::chrono::sys_days(date) + std::chrono::hours(hour) +
      std::chrono::minutes(minute) + std::chrono::seconds(second);
  return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}

/// One line's text of a key.
std::optional<std::string> text_of_bench(const BenchJson& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<HistoryRun> run_of_figure(const std::string& name, const BenchJson& figure) {
  const auto kind = figure.is_object() ? text_of_bench(figure, "kind") : std::nullopt;
  if (!kind || !figure.contains("value") || !figure["value"].is_number()) return std::nullopt;
  const double value = figure["value"].get<double>();
  if (!(value > 0) || !std::isfinite(value) || (*kind != "time" && *kind != "rate"))
    return std::nullopt;
  HistoryRun run;
  run.cell.model = name;
  run.measured.speed = *kind == "rate" ? value : 1 / value;
  const double noise = figure.value("noise", 0.0);
  const double rounds = figure.value("rounds", 1.0);
  // That of the median of so many rounds.
  constexpr double of_median = 1.2533;
  if (noise > 0 && rounds >= 2) run.measured.step_noise = of_median * noise / std::sqrt(rounds);
  return run;
}

}  // namespace

Result<History> history_of_bench(const std::string& text, const std::string& file,
    const std::vector<std::string>& names, double resolve) {
  std::istringstream lines(text);
  std::string line;
  std::vector<HistoryRun> runs;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    const auto refuse = [&](std::string_view why) {
      return fault(FaultKind::invalid_input, fmt::format("{}:{}: {}", file, number, why));
    };
    const auto json = BenchJson::parse(line, nullptr, false);
    const auto commit = json.is_object() ? text_of_bench(json, "commit") : std::nullopt;
    const auto date = commit ? text_of_bench(json, "date") : std::nullopt;
    const auto host = date ? text_of_bench(json, "host") : std::nullopt;
    if (!host || !json.contains("figures") || !json["figures"].is_object())
      return refuse("this is no line of `scripts/bench --append FILE`");
    const auto at = time_of_bench(*date);
    if (!at)
      return refuse(
          fmt::format("'date' is like 2026-11-26T08:40:00Z, and not {}", in_quotes(*date)));
    for (const auto& [name, figure] : json["figures"].items()) {
      auto run = run_of_figure(name, figure);
      if (!run)
        return refuse(fmt::format(
            "the figure {} has no 'value' above 0 and 'kind' time or rate", in_quotes(name)));
      if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
      run->runner = *host;
      run->ended_at = *at;
      run->id = number;
      run->software["commit"] = *commit;
      runs.push_back(*std::move(run));
    }
  }
  if (runs.empty())
    return fault(FaultKind::invalid_input,
        names.empty() ? fmt::format("{}: no line in it", file)
                      : fmt::format("{}: no figure is named {}", file, fmt::join(names, " or ")));
  auto history = history_of(runs, HistoryOf::layout, resolve);
  for (auto& series : history.series) {
    const auto& last = series.points.back().run;
    series.title = fmt::format("{} on {}", last.cell.model, last.runner);
    series.unit = "per second";
  }
  return history;
}

Table without_layouts(const Table& table) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> renamed{
      {{"model", "figure"}, {"runner", "host"}, {"tokens_per_s_per_gpu", "per_second"}}};
  constexpr std::array<std::string_view, 10> layouts{
      "seq_len", "nodes", "gpus", "cluster", "vars", "layout", "sweep", "trial", "runs", "hosts"};
  Table kept;
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto& name = table.columns[i];
    if (std::find(layouts.begin(), layouts.end(), name) != layouts.end()) continue;
    const auto other = std::find_if(
        renamed.begin(), renamed.end(), [&](const auto& one) { return one.first == name; });
    kept.columns.emplace_back(other == renamed.end() ? name : std::string(other->second));
    columns.push_back(i);
  }
  for (const auto& row : table.rows) {
    auto& into = kept.rows.emplace_back();
    for (const auto column : columns)
      into.push_back(row[column]);
  }
  return kept;
}

}  // namespace shardsweep
