// SPDX-License-Identifier: Apache-2.0
#include "show/heatmap_cell.hpp"

#include "answer/answer.hpp"
#include "answer/best_text.hpp"
#include "show/cell_text.hpp"
#include "show/table_view.hpp"
#include "text/numbers.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace shardsweep {
bool is_measured(const HeatmapCell& cell) {
  return cell.status == name(Outcome::completed);
}

ColourScale colour_scale(const Heatmap& heatmap) {
  ColourScale scale;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (cell.value) scale.take(*cell.value);
    }
  }
  return scale;
}

std::string heatmap_title(const Heatmap& heatmap) {
  const auto* metric = find_metric(heatmap.value_name);
  const bool count = heatmap.aggregate == Aggregate::count;
  const auto human = title_of(heatmap.value_name);
  // A name that is its unit says it once.
  const bool unit = metric != nullptr && metric->unit != "1" && metric->unit != human;
  std::string title;
  if (!heatmap.facet_name.empty()) {
    title = printable(fmt::format("{} {}: ", title_of(heatmap.facet_name),
        humanised(heatmap.facet_name, heatmap.facet_value)));
  }
  if (count) return title + std::string(aggregate_text(heatmap.aggregate));
  return title +
      fmt::format("{}{} {}", human, unit ? fmt::format(" [{}]", metric->unit) : "",
          aggregate_text(heatmap.aggregate));
}

std::string value_text(const Heatmap& heatmap, double value) {
  if (heatmap.aggregate == Aggregate::count) return grouped(static_cast<std::int64_t>(value));
  return humanised(heatmap.value_name, value);
}

std::string layout_of(const Heatmap& heatmap, const HeatmapCell& cell) {
  const bool predicted = cell.layout.empty() && heatmap.value_name != "outcome";
  return predicted ? cell.predicted_layout : cell.layout;
}

std::string certainty_text(const HeatmapCell& cell) {
  return is_measured(cell) ? brief_text(cell.answer) : std::string();
}

std::string told_runner(std::string name) {
  constexpr std::string_view untold = " unknown";
  if (name.ends_with(untold))
    name.replace(name.size() - untold.size(), untold.size(), " (version not told)");
  return name;
}

std::string runners_text(const Heatmap& heatmap) {
  std::vector<std::string> names;
  for (const std::string& name : heatmap.runners)
    names.push_back(told_runner(name));
  return fmt::format("runner: {}", fmt::join(names, ", "));
}

std::string certainty_meaning(const HeatmapCell& cell) {
  const auto text = certainty_text(cell);
  if (text.empty()) return {};
  const auto sentence = certainty_text(cell.answer);
  return sentence.starts_with(text + ": ") ? sentence : text + ": " + sentence;
}

const HeatmapCell* most_certain(const Heatmap& heatmap) {
  const HeatmapCell* most = nullptr;
  std::size_t length = 0;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      // The length of the sentence tells how many numbers it has.
      const auto own = certainty_meaning(cell).size();
      if (own > length) most = &cell;
      length = std::max(length, own);
    }
  }
  return most;
}

std::string published_text(const HeatmapCell& cell) {
  if (cell.published_layout.empty()) return {};
  auto text = fmt::format("{}, {} tokens/s/GPU", cell.published_layout,
      amount_text(cell.published_tokens_per_s_per_gpu));
  if (!cell.published_by.empty())
    return text +
        fmt::format(
            ": not ranked here, because other software ({}) measured it. --all-versions ranks it "
            "too.",
            cell.published_by);
  // A slower run of the same cell has the higher MFU only if its FLOPs are counted otherwise.
  if (cell.published_gap && *cell.published_gap > 0)
    text += fmt::format(
        ": {} slower. Its MFU is higher only because the table counts more FLOPs per token for it.",
        percent_text(*cell.published_gap));
  return text;
}

std::string rule_of(const HeatmapCell& cell) {
  return cell.status == "infeasible" ? cell.why.substr(0, cell.why.find(':')) : "";
}

std::string_view cell_meaning(std::string_view status) {
  if (status == name(Outcome::skipped))
    return "not run: a layout with the same or a smaller memory need ran out of memory";
  if (const auto outcome = outcome_from(status)) return info(*outcome).meaning;
  for (const auto& word : cell_words) {
    if (word.name == status) return word.meaning;
  }
  return {};
}

std::string cell_sentence(const Heatmap& heatmap, std::size_t row, std::size_t column) {
  const auto& cell = heatmap.cells[row][column];
  std::string text = fmt::format("{} {}, {} {}: ", heatmap.row_name, heatmap.rows[row],
      heatmap.column_name, heatmap.columns[column]);
  if (is_measured(cell)) {
    text += cell.value ? value_text(heatmap, *cell.value) : "no value";
    const auto* metric = find_metric(heatmap.value_name);
    if (metric != nullptr && metric->unit == "tokens/s/GPU") text += " tokens/s/GPU";
    if (!cell.layout.empty()) text += fmt::format(", {}", cell.layout);
    if (const auto certainty = certainty_text(cell.answer); !certainty.empty())
      text += fmt::format(", {}", certainty);
    if (const auto* second = cell.answer.runner_up(); second != nullptr)
      text += fmt::format("; runner-up {}", second->name);
    if (const auto doubts = doubts_text(cell.answer); !doubts.empty())
      text += fmt::format("; {}", doubts);
    if (cell.open > 0) text += fmt::format(", {} not run yet", counted(cell.open, "trial"));
    if (!cell.published_layout.empty())
      text += "; the table's MFU column prefers " + published_text(cell);
  } else {
    text += fmt::format("{}: {}", cell.status, cell_meaning(cell.status));
    if (cell.predicted)
      text += fmt::format(
          "; predicted {} with {}", value_text(heatmap, *cell.predicted), cell.predicted_layout);
    if (!cell.why.empty()) text += fmt::format(" ({})", cell.why);
  }
  return printable(text);
}

}  // namespace shardsweep
