// SPDX-License-Identifier: Apache-2.0
// The cells of the page's table, each with its answer and its trials. The answer is that of
// planner/answer: nothing here ranks.
#pragma once

#include "show/pivot.hpp"
#include "show/trial_columns.hpp"

#include <shardsweep/answer.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Places of the trials in a report, by their ids.
class TrialRows {
 public:
  explicit TrialRows(const std::vector<ReportedTrial>& trials);
  [[nodiscard]] std::optional<std::size_t> row(TrialId trial) const;

 private:
  std::map<TrialId, std::size_t> rows_;
};

struct PageCell {
  std::size_t row = 0;  ///< row in the heatmap
  std::size_t column = 0;
  CellAnswer answer{};
  std::vector<std::size_t> trials{};  ///< places of its trials, measured or not
};

/// Cells of the heatmap that have trials; the heatmap has to have asked for all layouts. Trials are
/// those of the runners that it shows, and of the sequence length with most measurements.
[[nodiscard]] std::vector<PageCell> cells_of_page(
    const Heatmap& heatmap, const std::vector<ReportedTrial>& trials);

/// "mine 1.2": what has measured a trial, or was to.
[[nodiscard]] std::string runner_of(const ReportedTrial& trial);

/// "llama-1b on 4 nodes"; of other axes their names and values.
[[nodiscard]] std::string place_of(const Heatmap& heatmap, std::size_t row, std::size_t column);

/// Badge on a cell.
struct Badge {
  std::string style{};  ///< class of page.css: faster, tie, run, open
  std::string text{};   ///< `faster 3.1 %`
};
[[nodiscard]] Badge badge_of(const CellAnswer& answer);

/// `micro batch`, `ZeRO`.
[[nodiscard]] std::string axis_words(std::string_view axis);

/// A sentence of the terminal without options of its command line: a reader of a page has none.
[[nodiscard]] std::string without_options(std::string sentence);

/// A layout's label as HTML: names faint, degrees of 1 left out, each axis unbroken.
[[nodiscard]] std::string layout_html(std::string_view label);

/// `dp data parallel degree`: the short names that occur in these labels.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> short_names_in(
    const std::vector<std::string>& labels);

}  // namespace shardsweep
