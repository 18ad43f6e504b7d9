// SPDX-License-Identifier: Apache-2.0
#include "report/sections.hpp"

#include "answer/answer.hpp"
#include "picture/svg.hpp"
#include "report/page.hpp"
#include "show/heatmap_cell.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace shardsweep {
namespace {

constexpr std::size_t most_sentences = 6;

/// Hosts of the runs of a layout, as many as a line takes.
std::string hosts_text(const ReportView& view, const MeasuredLayout& layout) {
  std::set<std::string> hosts;
  for (const auto row : layout.runs) {
    const auto text = view.trials.text(row, "hosts");
    if (!text.empty()) hosts.insert(text);
  }
  if (hosts.empty()) return {};
  return fmt::format(
      ", on {}{}", *hosts.begin(),
      hosts.size() > 1 ? fmt::format(" and {} more groups of hosts", hosts.size() - 1) : "");
}

/// "llama-1b on 4 nodes"; of other axes their names and values.
std::string place_of(const Heatmap& heatmap, const CellLayouts& cell) {
  const auto& row = heatmap.rows[cell.row];
  const auto& column = heatmap.columns[cell.column];
  const bool size = heatmap.column_name == "nodes" || heatmap.column_name == "gpus";
  if (heatmap.row_name != "model" || !size)
    return fmt::format("{} {}, {} {}", heatmap.row_name, row, heatmap.column_name, column);
  const char* noun = heatmap.column_name == "gpus" ? "GPU" : "node";
  return fmt::format("{} on {} {}{}", row, column, noun, column == "1" ? "" : "s");
}

std::string cell_line(const ReportView& view, const CellLayouts& cell) {
  const auto& best = cell.layouts.front();
  const auto& answer = view.heatmap.cells[cell.row][cell.column].answer;
  auto text = fmt::format("{}: {} with {} tokens/s/GPU{}: {}", place_of(view.heatmap, cell),
                          best.name, amount_text(best.ranked.value), hosts_text(view, best),
                          certainty_text(answer));
  if (const auto* second = answer.runner_up(); second != nullptr)
    text += fmt::format("; runner-up {} with {}", second->name,
                        amount_text(second->tokens_per_s_per_gpu));
  text += '.';
  if (const auto doubts = doubts_text(answer); !doubts.empty())
    text += fmt::format(" Doubtful: {}.", doubts);
  if (answer.open > 0) text += fmt::format(" {} not run yet.", counted(answer.open, "trial"));
  return text;
}

struct Condition {
  std::string name;
  std::map<std::string, std::int64_t> values;
};

std::vector<Condition> conditions_of(const Rows& trials) {
  std::map<std::string, std::map<std::string, std::int64_t>> found;
  for (std::size_t row = 0; row < trials.size(); ++row) {
    if (!trials.number(row, "tokens_per_s_per_gpu")) continue;
    const auto version = trials.text(row, "runner_version");
    ++found["runner"][trials.text(row, "runner") + (version.empty() ? "" : " " + version)];
    ++found["dtype"][trials.text(row, "dtype")];
    ++found["global batch"][trials.text(row, "global_batch")];
    for (auto& [key, value] : key_values(trials.text(row, "software")))
      ++found[key][value];
  }
  std::vector<Condition> conditions;
  conditions.reserve(found.size());
  for (auto& [name, values] : found)
    conditions.push_back({name, std::move(values)});
  return conditions;
}

std::string with_counts(const std::map<std::string, std::int64_t>& values) {
  constexpr std::size_t most_named = 6;
  std::string text;
  std::size_t named = 0;
  for (const auto& [value, count] : values) {
    if (named++ == most_named)
      return text + fmt::format(", and {} more", values.size() - most_named);
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", value, counted(count, "run"));
  }
  return text;
}

/// Lines that may hold a secret are in the site file, which a report does not have.
std::string details(std::string_view summary, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<details><summary>{}</summary><pre>", escaped(summary)) +
         escaped_lines(text) + "</pre></details>\n";
}

}  // namespace

std::string section(std::string_view heading, std::string_view body) {
  if (body.empty()) return {};
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escaped(heading), body);
}

std::string figure(std::string_view svg, std::string_view caption) {
  return fmt::format(
      "<figure><div class=\"scroll\">{}</div><figcaption>{}</figcaption></figure>\n", svg,
      escaped(caption));
}

std::string sentence_section(const ReportView& view) {
  std::vector<const CellLayouts*> cells;
  for (const auto& cell : view.layouts.cells) {
    if (!cell.layouts.empty()) cells.push_back(&cell);
  }
  if (cells.empty()) return "<p class=\"sentence\">Nothing is measured yet.</p>\n";
  std::string out = "<ul class=\"sentence\">\n";
  for (std::size_t i = 0; i < std::min(cells.size(), most_sentences); ++i)
    out += fmt::format("<li>{}</li>\n", escaped(cell_line(view, *cells[i])));
  out += "</ul>\n";
  if (cells.size() > most_sentences)
    out += fmt::format("<p>For {} more cells see the heatmap.</p>\n",
                       cells.size() - most_sentences);
  return out;
}

std::string comparability_section(const ReportView& view) {
  std::string equal;
  std::string differing;
  for (const auto& condition : conditions_of(view.trials)) {
    if (condition.values.size() == 1) {
      equal += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(condition.name),
                           escaped(condition.values.begin()->first));
    } else {
      differing += fmt::format("<dt class=\"warning\">{}</dt><dd>{}</dd>\n",
                               escaped(condition.name), escaped(with_counts(condition.values)));
    }
  }
  std::string body;
  if (!differing.empty())
    body += "<p class=\"warning\">Not equal in all runs:</p><dl>" + differing + "</dl>\n";
  if (!equal.empty())
    body += "<p>Equal in all runs:</p><dl class=\"equal\">" + equal + "</dl>\n";
  if (!view.heatmap.note.empty())
    body += fmt::format("<p class=\"warning\">{}</p>\n", escaped(view.heatmap.note));
  return section("Can the numbers be compared?", body);
}

std::string nodes_section(const ReportView& view) {
  std::string body;
  if (!view.facts.controls.rows.empty())
    body += html_table(view.facts.controls,
                       "Controls: the same short run before and after an allocation's trials");
  if (!view.facts.nodes.rows.empty())
    body += html_table(view.facts.nodes, "Nodes with findings");
  return section("Controls and nodes", body);
}

std::string trials_section(const ReportView& view) {
  const auto body = fmt::format(
      "<div class=\"bar\"><label>Filter <input id=\"filter\" type=\"search\" "
      "placeholder=\"words; all have to occur\"></label>\n<button id=\"csv\" "
      "type=\"button\">Download CSV</button>\n<span id=\"count\" role=\"status\">{}</span>\n"
      "<button id=\"before\" type=\"button\">Previous</button><button id=\"after\" "
      "type=\"button\">Next</button></div>\n<div class=\"scroll\" tabindex=\"0\" "
      "role=\"group\" "
      "aria-label=\"All trials\"><table id=\"trials\"><thead></thead><tbody></tbody></table>"
      "</div>\n<div id=\"trial\" hidden tabindex=\"-1\" role=\"region\" "
      "aria-label=\"One trial\"></div>\n",
      counted(static_cast<std::int64_t>(view.trials.size()), "trial"));
  return section("All trials", body);
}

std::string reproduce_section(const ReportView& view) {
  const Rows sweeps(view.facts.sweeps);
  std::string body;
  for (std::size_t row = 0; row < sweeps.size(); ++row) {
    const auto name = sweeps.text(row, "sweep");
    body += fmt::format(
        "<h3>{}</h3><dl><dt>backend</dt><dd>{}</dd><dt>cluster</dt><dd>{}</dd>"
        "<dt>runner</dt><dd>{} {}</dd><dt>submission</dt><dd>{}</dd></dl>\n",
        escaped(name), escaped(sweeps.text(row, "backend")),
        escaped(sweeps.text(row, "cluster")), escaped(sweeps.text(row, "runner")),
        escaped(sweeps.text(row, "runner_version")), escaped(sweeps.text(row, "revision")));
    body += details("The sweep file, complete: save it and `shardsweep run` it",
                    sweeps.text(row, "resolved"));
    body += details("The template of its job scripts", sweeps.text(row, "job_template"));
  }
  if (!body.empty())
    body +=
        "<p class=\"faint\">The site file is not part of a report: it may hold secrets. "
        "`shardsweep render` prints the job script of a sweep file.</p>\n";
  return section("Reproduce", body);
}

}  // namespace shardsweep
