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

// Words of a heatmap's cell: the same in the terminal and in a picture.

[[nodiscard]] bool is_measured(const HeatmapCell& cell);

/// Scale of the measured values alone.
struct ColourScale;
[[nodiscard]] ColourScale colour_scale(const Heatmap& heatmap);

/// "tokens/s/GPU of the fastest layout of each cell", the facet before it.
[[nodiscard]] std::string heatmap_title(const Heatmap& heatmap);

/// A value of this heatmap, with its unit.
[[nodiscard]] std::string value_text(const Heatmap& heatmap, double value);

/// The measured layout, else the predicted one where its number stands too; often empty.
[[nodiscard]] std::string layout_of(const Heatmap& heatmap, const HeatmapCell& cell);

/// `faster by 3.0 %`, `tie, +0.4 %`, `1 run, +17.2 %`, `2 runs` of a layout without a rival;
/// empty if nothing was ranked.
[[nodiscard]] std::string certainty_text(const HeatmapCell& cell);
/// A runner with its version: `shardbench 0.4.0`, and of `megatron unknown`
/// `megatron (version not told)`.
[[nodiscard]] std::string told_runner(std::string name);
/// `runner: megatron (version not told)`
[[nodiscard]] std::string runners_text(const Heatmap& heatmap);

/// Sentence that explains certainty_text() with the cell's own numbers; empty if that is empty.
[[nodiscard]] std::string certainty_meaning(const HeatmapCell& cell);

/// The cell whose certainty has most numbers, for a legend; nullptr where nothing was ranked.
[[nodiscard]] const HeatmapCell* most_certain(const Heatmap& heatmap);

/// Layout that the imported table's own MFU ranks first, and why it is not the best one here; empty
/// if it is.
[[nodiscard]] std::string published_text(const HeatmapCell& cell);

/// The short name of the constraint that left every layout out: `memory`; else empty.
[[nodiscard]] std::string rule_of(const HeatmapCell& cell);

/// Meaning of a status that is no value: a sentence for a legend.
[[nodiscard]] std::string_view cell_meaning(std::string_view status);

/// One line of words with all that is known of a cell, for a tooltip or a screen reader.
[[nodiscard]] std::string cell_sentence(
    const Heatmap& heatmap, std::size_t row, std::size_t column);

}  // namespace shardsweep
