// SPDX-License-Identifier: Apache-2.0
#include "report/page.hpp"

#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/page_assets.hpp"
#include "show/cell_text.hpp"
#include "show/heatmap_cell.hpp"
#include "show/heatmap_table.hpp"
#include "show/table_view.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

bool is_number(const Value& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}

struct HtmlColumn {
  std::size_t index = 0;
  bool numeric = true;
};

/// Those in which something stands.
std::vector<HtmlColumn> html_columns(const Table& table) {
  std::vector<HtmlColumn> columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    bool any = table.rows.empty();
    HtmlColumn column{i, !any};
    for (const auto& row : table.rows) {
      if (std::holds_alternative<std::monostate>(row[i])) continue;
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
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";
  page += fmt::format("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
                      escaped(title), page_style);
  page += body;
  if (script == PageScript::whole) page += fmt::format("<script>\n{}</script>\n", page_script);
  return page + "</body>\n</html>\n";
}

std::string html_table(const Table& table, std::string_view caption) {
  const auto columns = html_columns(table);
  const auto align = [](const HtmlColumn& column) {
    return column.numeric ? " class=\"number\"" : "";
  };
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"" +
                    escaped(caption) + "\"><table>";
  if (!caption.empty()) out += fmt::format("<caption>{}</caption>", escaped(caption));
  out += "<thead><tr>";
  for (const auto& column : columns) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", align(column),
                       escaped(title_of(table.columns[column.index])));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const auto& column : columns) {
      out += fmt::format("<td{}>{}</td>", align(column),
                         escaped(humanised(table.columns[column.index], row[column.index])));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string heatmap_page(const std::vector<Heatmap>& heatmaps) {
  std::string body;
  for (const auto& heatmap : heatmaps) {
    const auto title = heatmap_title(heatmap);
    body +=
        fmt::format("<section>\n<h2>{}</h2>\n<figure><div class=\"scroll\">{}</div></figure>\n",
                    escaped(title), svg_text(heatmap_picture(heatmap), SvgUse::page));
    body += html_table(heatmap_list(heatmap), title) + "</section>\n";
  }
  const auto title = heatmaps.empty() ? "no trials" : heatmap_title(heatmaps.front());
  return html_page(title, "<h1>shardsweep heatmap</h1>\n" + body, PageScript::none);
}

}  // namespace shardsweep
