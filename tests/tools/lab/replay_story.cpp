// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/replay_story.hpp"

#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

Value measured_value(const ReplayedRow& row) {
  return row.tokens_per_s_per_gpu ? Value(*row.tokens_per_s_per_gpu) : Value();
}

/// Rows of one layout may differ in their kernel.
std::string layout_of(const ReplayedRow& row) {
  const auto layout = layout_text(row.point);
  return row.kernel.empty() ? layout : fmt::format("{} {}", layout, row.kernel);
}

constexpr double upper_sigmas = 1.645;

const std::vector<std::string>& all_columns() {
  static const std::vector<std::string> names{"model", "seq_len", "nodes", "launch", "line",
      "layout", "predicted", "at_most", "fits", "outcome", "measured", "cut_short", "gpu_hours",
      "rule", "why"};
  return names;
}

std::vector<Value> launch_row(const ReplayedLaunch& one, std::size_t number) {
  return {static_cast<std::int64_t>(number), std::int64_t{one.row.line}, layout_of(one.row),
      one.predicted_tokens_per_s_per_gpu,
      one.predicted_tokens_per_s_per_gpu * std::exp(upper_sigmas * one.sigma), one.fits,
      std::string(name(one.row.outcome)), measured_value(one.row),
      std::int64_t{one.cut_short ? 1 : 0}, one.row.gpu_hours, Value(), one.why};
}

/// What was never launched has the outcome that its table tells.
std::vector<Value> left_out_row(const ReplayedLeftOut& one) {
  return {Value(), std::int64_t{one.row.line}, layout_of(one.row), Value(), Value(), Value(),
      std::string(name(one.row.outcome)), measured_value(one.row), Value(), one.row.gpu_hours,
      one.rule, one.why};
}

Table whole_table(const ReplayReport& report) {
  Table table{all_columns(), {}};
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const auto& cell = report.cells[i];
    const auto add = [&](std::vector<Value> rest) {
      std::vector<Value> row{cell.model, std::int64_t{cell.seq_len}, std::int64_t{cell.nodes}};
      row.insert(row.end(), rest.begin(), rest.end());
      table.rows.push_back(std::move(row));
    };
    std::size_t number = 0;
    for (const auto& one : report.stories[i].launches)
      add(launch_row(one, ++number));
    for (const auto& one : report.stories[i].left_out)
      add(left_out_row(one));
  }
  return table;
}

std::string speed_text(const Value& value) {
  const auto* speed = std::get_if<double>(&value);
  return speed == nullptr ? "" : grouped(std::llround(*speed));
}

void launches_for_people(const ReplayedCell& story, const TableStyle& style, std::string& text) {
  Table table{{"launch", "line", "layout", "predicted", "at_most", "fits", "outcome", "measured",
                  "gpu_hours", "why"},
      {}};
  std::size_t number = 0;
  for (const auto& one : story.launches) {
    const double most = one.predicted_tokens_per_s_per_gpu * std::exp(upper_sigmas * one.sigma);
    table.rows.push_back({static_cast<std::int64_t>(++number), std::int64_t{one.row.line},
        layout_of(one.row), grouped(std::llround(one.predicted_tokens_per_s_per_gpu)),
        grouped(std::llround(most)), fmt::format("{:.0f} %", 100 * one.fits),
        one.cut_short ? std::string("cut short") : std::string(name(one.row.outcome)),
        speed_text(measured_value(one.row)), fmt::format("{:.1f}", one.row.gpu_hours), one.why});
  }
  text += table_text(table, style);
}

void left_out_for_people(const ReplayedCell& story, const TableStyle& style, std::string& text) {
  if (story.left_out.empty()) return;
  Table table{{"line", "layout", "outcome", "measured", "rule", "why"}, {}};
  for (const auto& one : story.left_out) {
    table.rows.push_back(
        {std::int64_t{one.row.line}, layout_of(one.row), std::string(name(one.row.outcome)),
            speed_text(measured_value(one.row)), one.rule, one.why});
  }
  text += fmt::format("Never launched: {}. Outcome and speed are the table's.\n",
      counted(static_cast<std::int64_t>(story.left_out.size()), "row"));
  text += table_text(table, style);
}

}  // namespace

std::string replay_story_text(const ReplayReport& report, const TableStyle& style) {
  if (style.format != Format::table) return table_text(whole_table(report), style);
  std::string text;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const auto& cell = report.cells[i];
    text += fmt::format("{}{} seq_len {} on {}: launched {} of {}\n", text.empty() ? "" : "\n",
        cell.model, cell.seq_len, counted(cell.nodes, "node"), grouped(cell.launched),
        counted(cell.points, "point"));
    if (cell.launched > 0) launches_for_people(report.stories[i], style, text);
    left_out_for_people(report.stories[i], style, text);
  }
  return text;
}

}  // namespace shardsweep
