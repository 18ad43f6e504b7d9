// SPDX-License-Identifier: Apache-2.0
// The parts of a report's page, each as HTML; empty if there is nothing to say.
#pragma once

#include "report/cells_of_page.hpp"
#include "report/report_page.hpp"
#include "show/trial_columns.hpp"

#include <shardsweep/report_facts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

inline constexpr double seconds_per_hour = 3600;

/// Material that the sections are made from.
struct ReportView {
  const ReportInput& input;
  const std::vector<ReportedTrial>& trials;
  const TrialRows& rows;
  const std::vector<PageCell>& cells;
  bool with_trials = true;  ///< the page has a table of trials to link to

  [[nodiscard]] const ReportFacts& facts() const { return input.facts; }
  [[nodiscard]] const Heatmap& heatmap() const { return input.heatmap; }
  /// True if others have measured all of it.
  [[nodiscard]] bool is_imported() const {
    const auto& sweeps = facts().sweeps;
    return !sweeps.empty() &&
        std::all_of(sweeps.begin(), sweeps.end(),
            [](const ReportedSweep& one) { return one.backend == Backend::imported; });
  }
  /// The row of the run that stands for a layout.
  [[nodiscard]] std::optional<std::size_t> row_of(const AnsweredLayout& layout) const {
    return rows.row(layout.trial);
  }
};

/// `9,280 GPU-h`, `3.4 GPU-min`, `12 GPU-s`.
[[nodiscard]] std::string gpu_time_text(double gpu_seconds);

/// A heading and what stands below it; empty if `body` is.
[[nodiscard]] std::string section(std::string_view heading, std::string_view body);

/// Header: what was measured, on what, when, at what cost, how surely.
[[nodiscard]] std::string header_section(const ReportView& view);
/// The table of cells, and beside it a panel for each, of which one is shown.
[[nodiscard]] std::string answer_section(const ReportView& view);
/// All about one cell: its answer, its fastest layouts, where their steps and memory go.
[[nodiscard]] std::string cell_panel(const ReportView& view, const PageCell& cell);
/// Speed against memory of the chosen cell; empty if no memory was measured.
[[nodiscard]] std::string memory_chart(const ReportView& view);
[[nodiscard]] std::string predicted_section(const ReportView& view);
/// Every trial as a line over all axes.
[[nodiscard]] std::string parallel_section(const ReportView& view);
/// Table of what layouts gain or lose that differ in one axis alone.
[[nodiscard]] std::string axes_section(const ReportView& view);
[[nodiscard]] std::string scaling_section(const ReportView& view);
[[nodiscard]] std::string history_section(const ReportView& view);
[[nodiscard]] std::string use_section(const ReportView& view);
[[nodiscard]] std::string failures_section(const ReportView& view);
/// Profiles and memory snapshots: runs that no number of the page comes from.
[[nodiscard]] std::string side_runs_section(const ReportView& view);
[[nodiscard]] std::string nodes_section(const ReportView& view);
/// A table that the page's script fills from its data.
[[nodiscard]] std::string trials_section(const ReportView& view);
/// Conditions that a number depends on beside its layout: equal everywhere, or which values there
/// are.
[[nodiscard]] std::string conditions_section(const ReportView& view);
[[nodiscard]] std::string reproduce_section(const ReportView& view);

// Outcomes as the page words and colours them.

/// How trials ended, or the state of those that have not; the most frequent first, what was
/// measured before all.
[[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> counts_by_outcome(
    const std::vector<ReportedTrial>& trials);

/// `out of memory` of `oom`.
[[nodiscard]] std::string outcome_words(std::string_view outcome);

/// The number of its colour, k0 to k7 of page.css.
[[nodiscard]] std::size_t outcome_colour(std::string_view outcome);

// The axis that matters: pairs of layouts of one cell that differ in one axis alone. Nothing is
// fitted, because layouts that did not run leave holes in which a model would invent effects.

/// Step from one value of an axis to its next one.
struct AxisEffect {
  std::string axis;
  std::string from;
  std::string to;
  std::vector<double> changes;  ///< speed at `to` / speed at `from` - 1, of each pair; sorted
  [[nodiscard]] double at(double share) const;
};

/// Effects of all cells, axis by axis: first the axis with the largest change in the median. Steps
/// with fewer than three pairs are left out, unless no other is there.
[[nodiscard]] std::vector<AxisEffect> axis_effects(const std::vector<PageCell>& cells,
    const std::vector<ReportedTrial>& trials, const TrialRows& rows);

}  // namespace shardsweep
