// SPDX-License-Identifier: Apache-2.0
#include "report/page.hpp"

#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/cells_of_page.hpp"
#include "report/grid.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "show/heatmap_view.hpp"
#include "show/table_view.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

struct HtmlColumn {
  std::size_t index = 0;
  bool numeric = true;
};

/// Sweeps over gpus have 0 nodes in every row: their column says nothing.
bool says_nothing(const std::string& column, const Value& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  return std::holds_alternative<std::monostate>(value) ||
      (column == "nodes" && integer != nullptr && *integer == 0);
}

/// Columns in which something stands.
std::vector<HtmlColumn> html_columns(const Table& table) {
  std::vector<HtmlColumn> columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    bool any = table.rows.empty();
    HtmlColumn column{i, !any};
    for (const auto& row : table.rows) {
      if (says_nothing(table.columns[i], row[i])) continue;
      any = true;
      column.numeric = column.numeric && is_number(row[i]);
    }
    if (any) columns.push_back(column);
  }
  return columns;
}

}  // namespace

std::string html_page(std::string_view title, std::string_view body, PageScript script) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'";
  const bool explores = script == PageScript::explorer;
  if (explores) page += " 'wasm-unsafe-eval' blob:; worker-src blob:";
  page += fmt::format("\">\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n",
      xml_escaped(title), page_style, explores ? explorer_style : "");
  page += body;
  if (explores) page += fmt::format("<script>\n{}</script>\n", explorer_script);
  if (script == PageScript::whole) page += fmt::format("<script>\n{}</script>\n", page_script);
  return page + "</body>\n</html>\n";
}

std::string html_table(const Table& table, std::string_view caption, const CellLink& link) {
  constexpr std::size_t least_long = 20;
  const auto columns = html_columns(table);
  const auto align = [](const HtmlColumn& column) {
    return column.numeric ? " class=\"number\"" : "";
  };
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"" +
      xml_escaped(caption) + "\"><table class=\"list\">";
  if (!caption.empty()) out += fmt::format("<caption>{}</caption>", xml_escaped(caption));
  out += "<thead><tr>";
  for (const auto& column : columns) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", align(column),
        xml_escaped(title_of(table.columns[column.index])));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const auto& column : columns) {
      const auto text = is_turned(table) && column.index == 0
          ? title_of(unit_column(table.columns, row, 1))
          : without_options(
                humanised(unit_column(table.columns, row, column.index), row[column.index]));
      const auto to = link ? link(row, column.index) : std::string();
      const auto content = to.empty()
          ? xml_escaped(text)
          : fmt::format("<a href=\"{}\">{}</a>", xml_escaped(to), xml_escaped(text));
      const auto kind = column.numeric  ? " class=\"number\""
          : text.size() < least_long    ? " class=\"word\""
          : text.find(' ') == text.npos ? " class=\"name\""
                                        : " class=\"long\"";
      out += fmt::format("<td{}>{}</td>", kind, content);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_lines(const std::vector<StyledLine>& lines) {
  std::string out = "<pre class=\"lines\">";
  for (const auto& line : lines) {
    for (const auto& [text, style] : line) {
      const bool strong = style == Style::strong || style == Style::bad;
      const auto* name = strong ? "b" : style == Style::faint ? "span class=\"faint\"" : "span";
      out += fmt::format("<{}>{}</{}>", name, xml_escaped(text), strong ? "b" : "span");
    }
    out += '\n';
  }
  return out + "</pre>\n";
}

std::string served_page(std::string page, const PageService& service) {
  const auto put = [&page](std::string_view mark, std::size_t behind, std::string_view text) {
    page.insert(page.find(mark) + behind, text);
  };
  constexpr std::string_view rule = "default-src 'none'; ";
  put(rule, rule.size(), "connect-src 'self'; ");
  constexpr std::string_view body = "<body>\n";
  put(body, body.size(), fmt::format("<nav>{}</nav>\n", service.links));
  if (service.version.empty() && service.every_s == 0) return page;
  page.insert(page.rfind("</body>"),
      fmt::format("<script data-version=\"{}\" data-every=\"{}\">\n{}</script>\n",
          xml_escaped(service.version), service.every_s, live_script));
  return page;
}

std::string heatmap_page(const ReportInput& input, const std::vector<Heatmap>& heatmaps) {
  const auto& trials = input.facts.trials;
  const TrialRows rows(trials);
  const auto cells = cells_of_page(input.heatmap, trials);
  const ReportView view{input, trials, rows, cells, false};
  std::string body = "<main>\n" + header_section(view);
  if (heatmaps.size() == 1) body += answer_section(view);
  for (const auto& heatmap : heatmaps) {
    const auto title = picture_title(heatmap);
    if (heatmaps.size() > 1) body += section(title, grid(heatmap, {}));
    body += "<details><summary>The same as a list</summary>\n" +
        html_table(heatmap_list(heatmap), title) + "</details>\n";
  }
  const auto title = heatmaps.empty() ? "no trials" : picture_title(heatmaps.front());
  return html_page(
      title, body + "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n", PageScript::whole);
}

}  // namespace shardsweep
