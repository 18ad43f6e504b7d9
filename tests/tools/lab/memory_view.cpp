// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/memory_view.hpp"

#include "show/table_view.hpp"

#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace shardsweep {
namespace {

// Of eyes: "6.4 %"; of machines the share itself.
Value share(const std::optional<double>& value, bool for_eyes) {
  if (!value) return {};
  if (for_eyes) return fmt::format("{:.1f} %", 100 * *value);
  return *value;
}

std::vector<std::pair<std::string, Value>> cells_of(const MemoryScore& score, bool eyes) {
  return {{"model", score.model}, {"good", score.good}, {"peak_rows", score.peak.rows},
      {"peak_error_median", share(score.peak.median, eyes)},
      {"peak_error_p90", share(score.peak.p90, eyes)}, {"allocated_rows", score.allocated.rows},
      {"allocated_error_median", share(score.allocated.median, eyes)},
      {"allocated_error_p90", share(score.allocated.p90, eyes)},
      {"good_left_out", score.good_left_out}, {"good_doubtful", score.good_doubtful},
      {"oom", score.oom}, {"caught", score.caught}, {"missed", score.missed},
      {"oom_doubtful", score.oom_doubtful}};
}

void add(Table& table, const MemoryScore& score, bool eyes) {
  std::vector<Value> row;
  for (auto& [name, value] : cells_of(score, eyes)) {
    if (table.rows.empty()) table.columns.push_back(name);
    row.push_back(std::move(value));
  }
  table.rows.push_back(std::move(row));
}

std::string without_end(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

}  // namespace

std::string memory_report_text(const MemoryReport& report, const TableStyle& style) {
  const Format format = style.format;
  Table models;
  for (const auto& score : report.models)
    add(models, score, format == Format::table);
  auto total = report.total;
  total.model = "all";
  if (format == Format::table) add(models, total, true);
  if (format != Format::json) {
    auto ranked = style;
    ranked.important = {"model", "good", "peak_error_median", "oom", "caught", "missed",
        "good_left_out", "peak_error_p90", "good_doubtful", "oom_doubtful"};
    return table_text(models, ranked);
  }
  Table all;
  add(all, total, false);
  const std::string array = table_text(all, format);  // of one
  const std::size_t begin = array.find('{');
  const std::string object = array.substr(begin, array.rfind('}') - begin + 1);
  return fmt::format(
      "{{\"models\":{},\"total\":{}}}\n", without_end(table_text(models, format)), object);
}

}  // namespace shardsweep
