// SPDX-License-Identifier: Apache-2.0
// The parts of a report's page, each as HTML; empty where there is nothing to say.
#pragma once

#include "report/cell_layouts.hpp"
#include "show/pivot.hpp"
#include "show/rows.hpp"

#include <shardsweep/report_facts.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// What the parts are made from.
struct ReportView {
  const ReportFacts& facts;
  const Heatmap& heatmap;
  const LayoutsOfCells& layouts;
  const Rows& trials;
  std::optional<std::int64_t> memory_limit;  ///< per GPU, where all sweeps have the same
};

/// A heading and what stands below it; empty where `body` is.
[[nodiscard]] std::string section(std::string_view heading, std::string_view body);
/// A drawing with its caption.
[[nodiscard]] std::string figure(std::string_view svg, std::string_view caption);

/// Winner, runner-up, gap, repeats, nodes, runner, and what is undecided: a line per cell.
[[nodiscard]] std::string sentence_section(const ReportView& view);
/// What a number depends on beside its layout: equal everywhere, or which values there are.
[[nodiscard]] std::string comparability_section(const ReportView& view);
/// The heatmap, and a panel for each of its cells, of which one is shown.
[[nodiscard]] std::string heatmap_section(const ReportView& view);
/// All about one cell: its fastest layouts, where their steps and memory go, speed against
/// memory, and what one axis alone changes.
[[nodiscard]] std::string cell_panel(const ReportView& view, const CellLayouts& cell);
[[nodiscard]] std::string predicted_section(const ReportView& view);
[[nodiscard]] std::string scaling_section(const ReportView& view);
[[nodiscard]] std::string history_section(const ReportView& view);
[[nodiscard]] std::string timeline_section(const ReportView& view);
[[nodiscard]] std::string nodes_section(const ReportView& view);
/// A table that the page's script fills from its data.
[[nodiscard]] std::string trials_section(const ReportView& view);
[[nodiscard]] std::string reproduce_section(const ReportView& view);

}  // namespace shardsweep
