// SPDX-License-Identifier: Apache-2.0
// The answer of a cell: its layouts ranked, how sure the first one's lead is, what makes that
// doubtful, and what would settle it. Finals come before single runs. If they can't tell
// finalists apart, the one with the highest median stands first, since that is the number that
// people see. The store collects what was measured of a cell and asks here; nobody else ranks.
// Pure.
#pragma once

#include "answer/verdict.hpp"
#include "search/finals.hpp"

#include <shardsweep/answer.hpp>
#include <shardsweep/store.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// A run that is ranked.
struct MeasuredRun {
  TrialId trial = 0;
  double tokens_per_s_per_gpu = 0;
  double step_spread = 0;    ///< (p95 - min) / median of its timed train steps; 0: not known
  std::int64_t steps = 0;    ///< timed
  double resolution = 0;     ///< share of the speed that its log rounds away
  double sm_clock_mhz = 0;   ///< 0: not known
  double gpu_hours = 0;      ///< 0: not known
  double others_cpu = 0;     ///< share of the CPUs that others used; 0: none, or not known
  double control_ratio = 0;  ///< allocation's control, relative to the usual one; 0: not known
  double network_ratio = 0;  ///< network of that control, relative to the usual one; 0: not known
  std::string also{};        ///< contradictions to its completion; empty: none
};

/// Measurement of the same layout by another sweep.
struct OtherMeasurement {
  std::string sweep;
  double tokens_per_s_per_gpu = 0;
};

/// A run that is measured and marked.
struct UnrankedRun {
  std::string name;  ///< layout's name
  double tokens_per_s_per_gpu = 0;
  std::string mark;
};

/// Runs of software that is not ranked here.
struct LeftOutRuns {
  std::int64_t runs = 0;
  std::string software{};           ///< "mine 1.1, mine 1.2"
  double tokens_per_s_per_gpu = 0;  ///< speed of the fastest
};

/// A layout of one sweep with its runs.
struct LayoutRuns {
  std::string name;
  std::vector<MeasuredRun> runs;
  std::vector<OtherMeasurement> elsewhere{};
};

/// The finals of a cell as they stand.
struct HeldFinals {
  Finals finals{};
  FinalsSettings settings{};
  std::map<TrialId, std::vector<TrialId>> runs{};  ///< measured ones, by finalist
};

/// Measurements of a cell. A layout that several sweeps measured is in it once.
struct CellRuns {
  std::vector<LayoutRuns> layouts;
  /// Noise by all runs of the cell, if `layouts` holds only some of them. The certainty of an
  /// answer must not depend on how many layouts a view asks for.
  std::optional<Noise> noise{};
  const HeldFinals* finals = nullptr;  ///< null: not held, or a layout was measured later
  std::int64_t measured = 0;           ///< runs in all; 0: those of `layouts`
  std::int64_t open = 0;               ///< trials that may still change the answer
  /// The fastest of the layouts that have marked runs alone.
  std::optional<UnrankedRun> unranked{};
  std::string mixed{};  ///< names of software that is ranked together; empty: all runs are of one
};

[[nodiscard]] CellAnswer answer_of(const CellRuns& cell);

/// Notes in an answer that it covers only some of the runs; does nothing if it covers all.
void add_left_out(CellAnswer& answer, const LeftOutRuns& left_out);

/// An answer with the number of GPUs, or of nodes, that its cell is of.
struct SizedAnswer {
  std::int64_t size = 0;
  CellAnswer* answer = nullptr;
};
/// Doubts cells that differ only in their number of GPUs, if the larger one is faster per GPU: then
/// one of the two was measured wrongly, or could not use a layout of the other.
void doubt_scaling(std::vector<SizedAnswer> cells, std::string_view noun);

/// Merges answers of cells that differ only in a var: the layouts of all of them by speed. The
/// winner of a cell stays before its other layouts.
[[nodiscard]] CellAnswer joined(const std::vector<CellAnswer>& cells);

/// Share by which the first layout is faster than the second: first / second - 1, by pairs of
/// finals if there are some; none: there is no second.
[[nodiscard]] std::optional<double> lead_of(const CellAnswer& answer);

/// The certainty of an answer in one phrase: `fastest so far (1 run): 17.2 % ahead, step times
/// vary by 70.8 %: may be chance`, `faster by 3.0 % +/- 1.0 % (12 pairs)`, `tie: …`, `the only
/// layout measured (1 run)`; empty if nothing is ranked.
[[nodiscard]] std::string certainty_text(const CellAnswer& answer);

/// The certainty in short, for tables: `faster`, `tie`, `1 run`, `open`; `alone` for the only
/// layout.
[[nodiscard]] std::string_view short_form(const CellAnswer& answer);

/// All doubts in one line, without the one that certainty_text() already names; empty: there are
/// none.
[[nodiscard]] std::string doubts_text(const CellAnswer& answer);

// Leaders of the cells of a sweep, from the rows that its further runs are decided over: what
// `best` names is measured again and profiled. Pure.

/// The finals that rank a cell; none: they have no pair yet, or a layout that is not in them was
/// measured faster.
[[nodiscard]] std::optional<HeldFinals> held_finals(
    const FinalCell& cell, const std::vector<FinalsRow>& rows, const FinalsSettings& settings);

/// Answers of each cell, by the sweep's own runs. Layouts have the names of the rows; runs with a
/// profiler and those that were measured again are left out.
[[nodiscard]] std::map<CellKey, CellAnswer> answers_of(
    const std::vector<FinalsRow>& rows, const FinalsSettings& settings);

}  // namespace shardsweep
