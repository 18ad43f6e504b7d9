// SPDX-License-Identifier: Apache-2.0
// Trials into a heatmap: a pivot over two columns in which every cell has a status, also where
// nothing ran. Pure.
#pragma once

#include <shardsweep/results.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Word for a cell whose status is no outcome.
struct CellWord {
  std::string_view name;
  char mark;
  std::string_view meaning;
};
inline constexpr std::array<CellWord, 7> cell_words{{
    {"unranked", '~', "measured, but contaminated, implausible or cut short"},
    {"running", '>', "running now"},
    {"queued", ':', "waits for its allocation"},
    {"planned", '.', "not run yet"},
    {"infeasible", '/', "every layout is infeasible; `plan` says why"},
    {"none", ' ', "no such point in the sweep"},
    {"spared", 'b', "not run: the search left it out; `show TRIAL` says why"},
}};

struct HeatmapCell {
  std::string_view status = "none";  ///< name of an outcome or of a CellWord
  char mark = ' ';                   ///< mark of the status
  std::optional<double> value;       ///< value of the best layout, or the aggregate
  std::string layout;                ///< the winner of its answer
  std::int64_t trials = 0;
  std::int64_t completed = 0;
  std::int64_t open = 0;  ///< planned, queued or running
  std::int64_t infeasible = 0;
  /// Layout that an imported table's own MFU ranks first, if it is another one; else empty.
  std::string published_layout{};
  double published_tokens_per_s_per_gpu = 0;
  std::string published_by{};             ///< the runner that measured it, if it is not shown
  std::optional<double> published_gap{};  ///< share by which it is slower than the best
  /// Answer of the cell: who won, how sure that is, and why it is doubtful. Nothing is ranked
  /// unless the status is `completed` and the fastest layout is asked for.
  CellAnswer answer{};
  /// Prediction for a cell that has no measurement and may still get one.
  std::optional<double> predicted{};
  std::string predicted_layout{};
  std::string why{};  ///< cause of a cell without a value: the first one, or the constraint
  friend bool operator==(const HeatmapCell&, const HeatmapCell&) = default;
};

struct Heatmap {
  std::string row_name;     ///< name of the column that gives the rows: "model"
  std::string column_name;  ///< "nodes"
  std::string value_name;   ///< a metric, or "outcome"
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<HeatmapCell>> cells;  ///< [row][column]
  std::string note;
  std::vector<std::string> runners{};  ///< runners that measured these values: "mine 1.2"
  Aggregate aggregate = Aggregate::best;
  std::string facet_name{};  ///< column that tells several heatmaps apart; empty: one heatmap
  Value facet_value{};       ///< value of that column here
};

/// Status of a cell: `completed` where something is ranked; else what is under way (running,
/// queued, planned); else how most of its trials ended, `skipped` last, because it follows from
/// another's oom, or `spared` where more of them were left out by their search; else
/// infeasible. Rows and columns are in natural order. A prediction stands in cells that are
/// under way, planned or spared, and in no other.
[[nodiscard]] Heatmap pivot(const Cells& cells, const HeatmapRequest& request);

/// `fastest layout`, `median over the layouts`: what a cell's value is.
[[nodiscard]] std::string_view aggregate_text(Aggregate aggregate);

/// Numbers by value, "7b" before "13b", the rest by bytes.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

}  // namespace shardsweep
