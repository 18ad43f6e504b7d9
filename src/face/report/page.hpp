// SPDX-License-Identifier: Apache-2.0
// A page of one file: no network, opened from a disk or a mail. All text of others goes through
// `escaped` before it comes here.
#pragma once

#include "report/report_page.hpp"
#include "show/pivot.hpp"
#include "show/styled_text.hpp"

#include <shardsweep/table.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// explorer: the explorer's, which runs a compiled planner.
enum class PageScript : std::uint8_t { none, whole, explorer };

/// The whole file: `title` is text, `body` is HTML.
[[nodiscard]] std::string html_page(
    std::string_view title, std::string_view body, PageScript script);

/// A table as HTML: values as people read them, numbers to the right; without the columns in
/// which nothing stands. `link`: where a cell leads, as an address; empty: nowhere.
using CellLink = std::function<std::string(std::span<const Value> row, std::size_t column)>;
[[nodiscard]] std::string html_table(
    const Table& table, std::string_view caption, const CellLink& link = {});

/// Lines of a terminal, their styles as a page has them.
[[nodiscard]] std::string html_lines(const std::vector<StyledLine>& lines);

/// A page as a server gives it to one reader, who may ask the server for more.
struct PageService {
  std::string links;    ///< HTML that stands above the page
  std::string version;  ///< version of its material: the page loads again if there is another
  int every_s = 0;      ///< seconds to the next load, if there is no version
};
[[nodiscard]] std::string served_page(std::string page, const PageService& service);

/// The report's page with its header and the table of cells alone; of several heatmaps each has
/// a table. `input.heatmap` is the first of them.
[[nodiscard]] std::string heatmap_page(
    const ReportInput& input, const std::vector<Heatmap>& heatmaps);

// Style and scripts of every page: src/face/report/page.css, page*.js and explorer*.

extern const char* const page_style;
extern const char* const page_script;
extern const char* const live_script;
extern const char* const explorer_style;
extern const char* const explorer_script;

}  // namespace shardsweep
