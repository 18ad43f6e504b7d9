// SPDX-License-Identifier: Apache-2.0

#include "picture/svg.hpp"
#include "report/sections.hpp"
#include "show/pivot.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

/// Axes in which layouts of one cell may differ, but for those that follow from the others (dp
/// and grad_accum), and the vars.
const std::vector<std::string>& free_columns() {
  static const auto columns = [] {
    std::vector<std::string> names;
    for (const auto& axis : axes()) {
      if (!axis.is(AxisUse::cell) && !axis.allows_auto) names.emplace_back(axis.name);
    }
    names.emplace_back("vars");
    return names;
  }();
  return columns;
}

/// Texts of the free columns.
std::vector<std::string> free_values(const ReportedTrial& trial) {
  static const auto columns = [] {
    std::vector<TrialColumn> found;
    for (const auto& name : free_columns())
      found.push_back(trial_column(name));
    return found;
  }();
  std::vector<std::string> values;
  values.reserve(columns.size());
  for (const auto& column : columns)
    values.push_back(plain_text(column(trial)));
  return values;
}

using ByValue = std::map<std::string, double, decltype(&natural_less)>;
using Changes = std::map<std::pair<std::string, std::string>, std::vector<double>>;

/// `axis`: its number among the free columns.
void add_pairs(Changes& changes, const CellAnswer& answer, const std::vector<ReportedTrial>& trials,
    const TrialRows& rows, std::size_t axis) {
  std::map<std::vector<std::string>, ByValue> lines;  // key: values of the other axes
  for (const auto& layout : answer.layouts) {
    const auto row = rows.row(layout.trial);
    if (!row) continue;
    auto values = free_values(trials[*row]);
    auto own = std::exchange(values[axis], {});
    auto& line = lines.try_emplace(std::move(values), &natural_less).first->second;
    // The faster of two layouts that differ in nothing here comes first and stays.
    line.try_emplace(std::move(own), layout.tokens_per_s_per_gpu);
  }
  for (const auto& [rest, line] : lines) {
    for (auto to = line.begin(); to != line.end(); ++to) {
      if (to == line.begin()) continue;
      const auto from = std::prev(to);
      changes[{from->first, to->first}].push_back(to->second / from->second - 1);
    }
  }
}

std::string signed_percent(double change) {
  return fmt::format("{}{:.{}f} %", change < 0 ? "−" : "+", std::abs(change) * 100,
      std::abs(change) < 0.1 ? 1 : 0);
}

/// The change on a scale from half to double, where no change is the middle.
double place_of(double change) {
  return std::clamp(50 + 50 * std::log2(1 + change), 0.0, 100.0);
}

}  // namespace

double AxisEffect::at(double share) const {
  return changes[static_cast<std::size_t>(
      std::lround(share * static_cast<double>(changes.size() - 1)))];
}

std::vector<AxisEffect> axis_effects(const std::vector<PageCell>& cells,
    const std::vector<ReportedTrial>& trials, const TrialRows& rows) {
  std::vector<AxisEffect> effects;
  for (std::size_t axis = 0; axis < free_columns().size(); ++axis) {
    Changes changes;
    for (const auto& cell : cells)
      add_pairs(changes, cell.answer, trials, rows, axis);
    for (auto& [step, found] : changes) {
      std::sort(found.begin(), found.end());
      effects.push_back({free_columns()[axis], step.first, step.second, std::move(found)});
    }
  }
  // A step of one or two pairs may be chance; it is told only if there is nothing else.
  constexpr std::size_t least_pairs = 3;
  const auto few = [](const AxisEffect& one) { return one.changes.size() < least_pairs; };
  if (!std::all_of(effects.begin(), effects.end(), few)) std::erase_if(effects, few);
  std::map<std::string, double> largest;
  for (const auto& one : effects)
    largest[one.axis] = std::max(largest[one.axis], std::abs(std::log1p(one.at(0.5))));
  std::stable_sort(effects.begin(), effects.end(),
      [&](const auto& a, const auto& b) { return largest[a.axis] > largest[b.axis]; });
  return effects;
}

std::string axes_section(const ReportView& view) {
  constexpr std::size_t most_shown = 24;
  const auto effects = axis_effects(view.cells, view.trials, view.rows);
  if (effects.empty()) return {};
  std::string body =
      "<p>Pairs of layouts of one cell that differ in this axis alone; dp and the accumulation "
      "follow from the GPUs and the batch.</p>\n<div class=\"scroll\" tabindex=\"0\" "
      "role=\"group\" aria-label=\"Which axis matters\"><table class=\"list\"><thead><tr><th "
      "scope=\"col\">change</th><th scope=\"col\" class=\"number\">pairs</th><th scope=\"col\" "
      "class=\"number\">speed, median</th><th scope=\"col\">middle 80 %, from half to double the "
      "speed</th><th scope=\"col\" class=\"number\">from</th><th scope=\"col\" "
      "class=\"number\">to</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < std::min(effects.size(), most_shown); ++i) {
    const auto& effect = effects[i];
    const double low = effect.at(0.1);
    const double high = effect.at(0.9);
    body += fmt::format(
        "<tr data-axis=\"{}\"><td class=\"change\">{} {} → {}</td><td class=\"number\">{}</td><td "
        "class=\"number\">{}</td><td><span class=\"effect\"><s></s><i "
        "style=\"left:{:.1f}%;width:{:.1f}%\"></i><u style=\"left:{:.1f}%\"></u></span></td><td "
        "class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
        xml_escaped(effect.axis), xml_escaped(axis_words(effect.axis)), xml_escaped(effect.from),
        xml_escaped(effect.to), effect.changes.size(), signed_percent(effect.at(0.5)),
        place_of(low), place_of(high) - place_of(low), place_of(effect.at(0.5)),
        signed_percent(low), signed_percent(high));
  }
  body += "</tbody></table></div>\n";
  if (effects.size() > most_shown)
    body +=
        fmt::format("<p class=\"faint\">and {} smaller ones.</p>\n", effects.size() - most_shown);
  return section("Which axis matters", body);
}

}  // namespace shardsweep
