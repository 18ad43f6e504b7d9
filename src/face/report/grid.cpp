// SPDX-License-Identifier: Apache-2.0
#include "report/grid.hpp"

#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/cells_of_page.hpp"
#include "report/sections.hpp"
#include "show/pivot.hpp"
#include "show/share_steps.hpp"
#include "show/table_view.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace shardsweep {
namespace {

bool shows_answers(const Heatmap& heatmap) {
  return heatmap.value_name != "outcome" && heatmap.aggregate == Aggregate::best;
}

Badge badge_at(const GridWords& words, std::size_t row, std::size_t column) {
  const auto* answer = words.answer ? words.answer(row, column) : nullptr;
  return answer == nullptr ? Badge() : badge_of(*answer);
}

/// Text of a cell without a value: how its trials ended, and why.
std::string without_value(const Heatmap& heatmap, const HeatmapCell& cell) {
  const bool outcome = outcome_from(cell.status).has_value();
  const auto tried = cell.trials - cell.open;
  auto head = outcome ? outcome_words(cell.status) : std::string(cell.status);
  if (outcome && tried > 0)
    head = cell.status == name(Outcome::completed)
        ? counted(cell.completed, "trial") + " measured"
        : fmt::format("{}: {}", counted(tried, "trial"), head);
  std::string out = fmt::format("<span class=\"value\">{}</span>", xml_escaped(head));
  if (cell.predicted)
    out += fmt::format("<span class=\"more\">predicted {}</span>",
        xml_escaped(value_text(heatmap, *cell.predicted)));
  const auto rule = rule_of(cell);
  if (!rule.empty()) out += fmt::format("<span class=\"more\">{}</span>", xml_escaped(rule));
  return out;
}

std::string inner_of(
    const Heatmap& heatmap, std::size_t row, std::size_t column, const GridWords& words) {
  const auto& cell = heatmap.cells[row][column];
  if (!is_measured(cell) || !cell.value || heatmap.value_name == "outcome")
    return without_value(heatmap, cell);
  std::string out =
      fmt::format("<span class=\"value\">{}</span>", xml_escaped(value_text(heatmap, *cell.value)));
  if (shows_answers(heatmap)) {
    const auto badge = badge_at(words, row, column);
    if (!badge.text.empty())
      out +=
          fmt::format("<span class=\"badge {}\">{}</span>", badge.style, xml_escaped(badge.text));
    if (!cell.layout.empty())
      out += fmt::format("<span class=\"layout\">{}</span>", layout_html(cell.layout));
  }
  auto more = words.more ? words.more(row, column) : std::vector<std::string>();
  if (cell.open > 0) more.push_back(grouped(cell.open) + " to run");
  if (more.empty()) return out;
  out += "<span class=\"more\">";
  for (const auto& part : more)
    out += fmt::format("<span>{}</span> ", xml_escaped(part));
  return out + "</span>";
}

std::string with_small(const std::string& label, const NameOf& below) {
  const auto more = below ? below(label) : std::string();
  return xml_escaped(label) +
      (more.empty() ? "" : fmt::format("<small>{}</small>", xml_escaped(more)));
}

std::string colour_legend(const Heatmap& heatmap, const std::vector<std::vector<int>>& steps) {
  std::set<int> seen;
  for (const auto& row : steps)
    seen.insert(row.begin(), row.end());
  seen.erase(0);
  if (seen.empty()) return {};
  std::string out = by_row(heatmap)
      ? "Colour: share of the best of its row, at least <span class=\"steps\">"
      : "Colour: from the lowest to the highest value <span class=\"steps\">";
  const auto scale = colour_scale(heatmap);
  for (int step = most_steps; step > 0; --step) {
    std::string name;
    if (by_row(heatmap)) {
      name = step_name(step);
    } else if (step == 1 || step == most_steps) {
      name = value_text(heatmap, step == 1 ? scale.low : scale.high);
    }
    out += fmt::format("<i class=\"s{}\">{}</i>", step, xml_escaped(name));
  }
  return out + "</span>";
}

std::string badge_legend(const Heatmap& heatmap, const GridWords& words) {
  std::set<std::string, std::less<>> seen;
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      if (is_measured(heatmap.cells[r][c])) seen.insert(badge_at(words, r, c).style);
    }
  }
  std::string out;
  for (const auto& [style, meaning] :
      {std::pair<std::string, std::string>{
           "faster", "<b>faster</b> ahead of the next layout by more than the noise"},
          {"tie", "<b>tie</b> the runs can't tell the first layouts apart"},
          {"run",
              "<b>1 run</b> measured once: + is its lead over the next layout, which is no proof"},
          {"open", "<b>?</b> open: see the details of the cell"}}) {
    if (seen.contains(style)) out += (out.empty() ? "" : " · ") + meaning;
  }
  return out;
}

std::string names_legend(const Heatmap& heatmap, const GridWords& words) {
  std::vector<std::string> labels;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (is_measured(cell)) labels.push_back(cell.layout);
    }
  }
  std::string out;
  for (const auto& [name, meaning] : short_names_in(labels))
    out += fmt::format(
        "{}<b>{}</b> {}", out.empty() ? "" : " · ", xml_escaped(name), xml_escaped(meaning));
  if (!out.empty()) out += ". Other axes are left out if they have their default.";
  if (!words.chosen.empty())
    out +=
        " <b>MFU</b> is the share of the GPUs' peak that the model's own arithmetic uses. "
        "Details of the framed cell are beside this table, or below it on a phone.";
  return out;
}

}  // namespace

std::string grid(const Heatmap& heatmap, const GridWords& words) {
  const auto steps = steps_of(heatmap);
  const auto title = heatmap.value_name == "outcome" ? std::string("outcome")
      : heatmap.aggregate == Aggregate::best ? title_of(heatmap.value_name) + " of the best layout"
                                             : picture_title(heatmap);
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><table "
      "class=\"grid\" style=\"--columns:{1}\"><thead><tr><th scope=\"col\">{0}</th>",
      xml_escaped(title), heatmap.columns.size());
  for (const auto& column : heatmap.columns) {
    const auto below = words.below_column ? words.below_column(column) : std::string();
    out += fmt::format("<th scope=\"col\">{}{}</th>", xml_escaped(column_text(heatmap, column)),
        below.empty() ? "" : "<small>" + xml_escaped(below) + "</small>");
  }
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    out += fmt::format(
        "<tr><th scope=\"row\">{}</th>\n", with_small(heatmap.rows[r], words.below_row));
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      if (heatmap.cells[r][c].status == "none") {
        out += "<td></td>";
        continue;
      }
      const auto key = cell_key(r, c);
      out += fmt::format(
          "<td><button type=\"button\" class=\"cell s{}\" data-key=\"{}\" data-name=\"{}\" "
          "data-column=\"{}\" aria-pressed=\"{}\" aria-label=\"{}\">{}</button></td>\n",
          steps[r][c], key, xml_escaped(place_of(heatmap, r, c)),
          xml_escaped(column_text(heatmap, heatmap.columns[c])), key == words.chosen,
          xml_escaped(without_options(cell_sentence(heatmap, r, c))),
          inner_of(heatmap, r, c, words));
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  for (const auto& line : {colour_legend(heatmap, steps),
           shows_answers(heatmap) ? badge_legend(heatmap, words) : std::string(),
           shows_answers(heatmap) ? names_legend(heatmap, words) : std::string()}) {
    if (!line.empty()) out += "<p class=\"legend\">" + line + "</p>\n";
  }
  return out;
}

}  // namespace shardsweep
