// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/replay_view.hpp"

#include "predict/units.hpp"
#include "show/table_view.hpp"
#include "text/median.hpp"
#include "text/numbers.hpp"

#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// The middle one, or the mean of the middle two; none of nothing.
std::optional<double> quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::nullopt;
  if (share == 0.5) return median_of(values, Even::mean);
  std::sort(values.begin(), values.end());
  // Nearest rank.
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

struct Total {
  ReplayCell sum;  ///< counts added up; regret_at_stop is the mean
  std::int64_t cells = 0;
  std::int64_t solvable = 0;         ///< cells with a completed row
  std::int64_t solvable_points = 0;  ///< rows of those
  double solvable_hours = 0;         ///< GPU-hours of those, every row launched
  std::vector<double> to_1pct;
  std::vector<double> first_choice;
  std::vector<double> regret;
};

Total total_of(const ReplayReport& report) {
  Total total;
  auto& sum = total.sum;
  sum.model = "total";
  for (const auto& cell : report.cells) {
    ++total.cells;
    sum.points += cell.points;
    sum.launched += cell.launched;
    sum.oom_launched += cell.oom_launched;
    sum.cut_short += cell.cut_short;
    sum.good_left_out += cell.good_left_out;
    sum.completed += cell.completed;
    sum.left_out += cell.left_out;
    sum.spared += cell.spared;
    sum.gpu_hours += cell.gpu_hours;
    sum.exhaustive_gpu_hours += cell.exhaustive_gpu_hours;
    if (!cell.regret_at_stop) continue;
    ++total.solvable;
    total.solvable_points += cell.points;
    sum.runs_to_1pct = sum.runs_to_1pct.value_or(0) + *cell.runs_to_1pct;
    sum.runs_to_best = sum.runs_to_best.value_or(0) + *cell.runs_to_best;
    sum.gpu_hours_to_1pct = sum.gpu_hours_to_1pct.value_or(0) + *cell.gpu_hours_to_1pct;
    total.solvable_hours += cell.exhaustive_gpu_hours;
    total.to_1pct.push_back(static_cast<double>(*cell.runs_to_1pct));
    total.first_choice.push_back(cell.first_choice);
    total.regret.push_back(*cell.regret_at_stop);
    sum.regret_at_stop = sum.regret_at_stop.value_or(0) + *cell.regret_at_stop;
    sum.first_choice += cell.first_choice;
  }
  if (total.solvable > 0) {
    const auto count = static_cast<double>(total.solvable);
    sum.first_choice /= count;
    *sum.regret_at_stop /= count;
  }
  return total;
}

Value or_null(const auto& value) {
  return value ? Value(*value) : Value();
}

const std::vector<std::string>& cell_columns() {
  static const std::vector<std::string> names{"model", "seq_len", "nodes", "points", "launched",
      "oom_launched", "good_left_out", "runs_to_1pct", "runs_to_best", "first_choice",
      "regret_at_stop", "completed", "left_out", "spared", "gpu_hours", "exhaustive_gpu_hours",
      "gpu_hours_to_1pct", "cut_short"};
  return names;
}

std::vector<Value> row_of(const ReplayCell& cell) {
  return {cell.model, std::int64_t{cell.seq_len}, std::int64_t{cell.nodes}, cell.points,
      cell.launched, cell.oom_launched, cell.good_left_out, or_null(cell.runs_to_1pct),
      or_null(cell.runs_to_best), cell.first_choice, or_null(cell.regret_at_stop), cell.completed,
      cell.left_out, cell.spared, cell.gpu_hours, cell.exhaustive_gpu_hours,
      or_null(cell.gpu_hours_to_1pct), cell.cut_short};
}

std::string json_object(const std::vector<std::string>& columns, std::vector<Value> row) {
  auto text = table_text({columns, {std::move(row)}}, Format::json);
  const auto first = text.find('{');
  return text.substr(first, text.rfind('}') + 1 - first);
}

std::string total_json(const Total& total) {
  auto columns = cell_columns();
  auto row = row_of(total.sum);
  const auto drop = [&](std::string_view name) {
    const auto at = std::find(columns.begin(), columns.end(), name) - columns.begin();
    columns.erase(columns.begin() + at);
    row.erase(row.begin() + at);
  };
  for (const auto* name : {"model", "seq_len", "nodes"})
    drop(name);
  const auto add = [&](const char* name, Value value) {
    columns.emplace_back(name);
    row.push_back(std::move(value));
  };
  add("cells", total.cells);
  add("cells_with_completed", total.solvable);
  add("points_of_those", total.solvable_points);
  add("median_runs_to_1pct", or_null(quantile(total.to_1pct, 0.5)));
  add("median_first_choice", or_null(quantile(total.first_choice, 0.5)));
  add("median_regret_at_stop", or_null(quantile(total.regret, 0.5)));
  add("p95_regret_at_stop", or_null(quantile(total.regret, 0.95)));
  return json_object(columns, std::move(row));
}

std::string as_json(const ReplayReport& report) {
  std::string text = "{\"cells\":[";
  for (const auto& cell : report.cells) {
    text += text.back() == '[' ? "\n" : ",\n";
    text += json_object(cell_columns(), row_of(cell));
  }
  return text + fmt::format("],\n\"total\":{}}}\n", total_json(total_of(report)));
}

/// For eyes: shares rounded.
std::vector<Value> shown_row(const ReplayCell& cell) {
  const auto share = [](double value) { return fmt::format("{:.3f}", value); };
  return {cell.model, cell.nodes == 0 ? Value() : Value(std::int64_t{cell.seq_len}),
      cell.nodes == 0 ? Value() : Value(std::int64_t{cell.nodes}), cell.points, cell.launched,
      cell.oom_launched, cell.cut_short, cell.good_left_out, cell.spared,
      or_null(cell.runs_to_1pct), or_null(cell.runs_to_best), share(cell.first_choice),
      cell.regret_at_stop ? Value(share(*cell.regret_at_stop)) : Value(),
      cell.gpu_hours_to_1pct ? Value(fmt::format("{:.1f}", *cell.gpu_hours_to_1pct)) : Value(),
      fmt::format("{:.1f} of {:.1f}", cell.gpu_hours, cell.exhaustive_gpu_hours)};
}

}  // namespace

std::string replay_text(const ReplayReport& report, const TableStyle& style) {
  const Format format = style.format;
  if (format == Format::json) return as_json(report);
  Table table;
  if (format == Format::csv) {
    table.columns = cell_columns();
    for (const auto& cell : report.cells)
      table.rows.push_back(row_of(cell));
    return table_text(table, format);
  }
  table.columns = {"model", "seq_len", "nodes", "points", "launched", "oom", "cut_short",
      "good_left_out", "spared", "runs_to_1pct", "runs_to_best", "first_choice", "regret",
      "hours_to_1pct", "gpu_hours"};
  for (const auto& cell : report.cells)
    table.rows.push_back(shown_row(cell));
  table.rows.push_back(shown_row(total_of(report).sum));
  auto ranked = style;
  ranked.important = {"model", "nodes", "launched", "points", "regret", "oom", "first_choice",
      "runs_to_1pct", "gpu_hours", "runs_to_best", "seq_len", "hours_to_1pct", "spared"};
  return table_text(table, ranked);
}

std::string cross_validation_text(
    const std::vector<FittedReplay>& replays, const TableStyle& style) {
  const Format format = style.format;
  if (format == Format::json) {
    std::string text = as_json(replays.front().report);
    text.erase(text.rfind('}'));
    text += ",\n\"cross_validation\":[";
    for (const auto& one : replays) {
      text += fmt::format("{}{{\"fitted_on\":\"{}\",\"total\":{}}}",
          text.back() == '[' ? "\n" : ",\n", one.fitted_on, total_json(total_of(one.report)));
    }
    return text + "]}\n";
  }
  Table table;
  table.columns = {"fitted_on", "points", "launched", "oom_launched", "good_left_out",
      "runs_to_1pct", "median_runs_to_1pct", "median_first_choice", "median_regret_at_stop"};
  for (const auto& one : replays) {
    const auto total = total_of(one.report);
    table.rows.push_back({one.fitted_on, total.sum.points, total.sum.launched,
        total.sum.oom_launched, total.sum.good_left_out, or_null(total.sum.runs_to_1pct),
        or_null(quantile(total.to_1pct, 0.5)), or_null(quantile(total.first_choice, 0.5)),
        or_null(quantile(total.regret, 0.5))});
  }
  return table_text(table, style);
}

std::string replay_summary(const ReplayReport& report) {
  const auto total = total_of(report);
  const auto& sum = total.sum;
  const auto percent = [](double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0.0;
  };
  std::string text = fmt::format(
      "Launched {} of {} ({:.1f} %); {} of them ran out of memory ({:.1f} %), {} ended "
      "early. Used {:.1f} of "
      "{:.1f} GPU-hours ({:.1f} %).",
      grouped(sum.launched), counted(sum.points, "point"),
      percent(real(sum.launched), real(sum.points)), grouped(sum.oom_launched),
      percent(real(sum.oom_launched), real(sum.launched)), grouped(sum.cut_short), sum.gpu_hours,
      sum.exhaustive_gpu_hours, percent(sum.gpu_hours, sum.exhaustive_gpu_hours));
  if (total.solvable == 0) return text;
  return text +
      fmt::format(
          "\nWithin 1 % of the best after {} in {} with {} ({:.2f} %), median {:g} per "
          "cell; {:.1f} of {:.1f} GPU-hours ({:.2f} %).\nFirst choice: {:.3f} of the best "
          "in the median. Regret at the stop: "
          "{:.4f} "
          "in the median, {:.4f} at the 95th percentile.",
          counted(*sum.runs_to_1pct, "run"), counted(total.solvable, "cell"),
          counted(total.solvable_points, "point"),
          percent(real(*sum.runs_to_1pct), real(total.solvable_points)),
          *quantile(total.to_1pct, 0.5), *sum.gpu_hours_to_1pct, total.solvable_hours,
          percent(*sum.gpu_hours_to_1pct, total.solvable_hours), *quantile(total.first_choice, 0.5),
          *quantile(total.regret, 0.5), *quantile(total.regret, 0.95));
}

}  // namespace shardsweep
