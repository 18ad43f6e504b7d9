// SPDX-License-Identifier: Apache-2.0
// A recorded sweep as the cluster: planner and daemon run against it with a virtual clock, and
// what they would have launched is scored against what was measured.
#pragma once

#include "predict/family.hpp"
#include "search/extrapolation.hpp"

#include <shardsweep/recorded.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/search.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Whose completed rows the time model is refitted to before a cell is replayed.
enum class ReplayFit : std::uint8_t {
  none,          ///< the family's constants as they are
  other_models,  ///< those of the table's other models: the cell's own stays unseen
  other_cells,   ///< those of all cells but its own
  all_models,    ///< every row, the cell's own included
};

struct ReplayOptions {
  ClusterSpec cluster;
  const Family* family = nullptr;
  SearchSettings search;
  /// A run takes `start_s` and its train step times `steps`; one that ran out of memory takes
  /// `oom_s`, one that failed otherwise `start_s`.
  double start_s = 60;
  double oom_s = 60;
  std::int32_t steps = 13;
  std::int32_t warmup = 3;  ///< of these: one that is cut short ends two steps later, or
                            ///< after two where they are long and far above the bound
  /// Timed steps of each launch, as measure.first; an exhaustive sweep's have all. 0: all too.
  std::int32_t first = 0;
  /// As measure.finalists. With `first`, a round of a cell's finals counts after its stop.
  std::int32_t finalists = Measure::usual_finalists;
  [[nodiscard]] std::int32_t steps_of_launch(std::int32_t cut_after = 0) const {
    if (cut_after > 0) return cut_after;
    return first > 0 ? warmup + first : steps;
  }
  ReplayFit fit = ReplayFit::none;
  /// What other sweeps have measured: each cell has heard of it when it begins.
  std::vector<Experience> remembered;
};

/// What a policy does with one cell (model x seq_len x nodes).
struct ReplayCell {
  std::string model;
  std::int32_t seq_len = 0;
  std::int32_t nodes = 0;
  std::int32_t gpus = 0;
  std::int64_t points = 0;  ///< rows, those left out included
  std::int64_t launched = 0;
  std::int64_t oom_launched = 0;
  std::int64_t cut_short = 0;  ///< of those launched
  /// Completed rows that no order would ever launch: infeasible, a memory verdict, a named
  /// rule. Those whose log holds an OOM (`oom_error`) are neither good nor bad, as in
  /// evaluate-memory: they end, slowly, on what the allocator gives back.
  std::int64_t good_left_out = 0;
  std::int64_t completed = 0;  ///< rows
  std::int64_t left_out = 0;   ///< rows that were never launched, `spared` not counted
  std::int64_t spared = 0;     ///< rows that `until` made needless
  /// Launches until one was within 1 % of the best row, and until the best itself; where it was
  /// never launched, all of them and one more. None: the cell has no completed row.
  std::optional<std::int64_t> runs_to_1pct;
  std::optional<std::int64_t> runs_to_best;
  double first_choice = 0;  ///< of the best row's speed; 0 where the first launch failed
  /// 1 - best launched / best row. None: the cell has no completed row.
  std::optional<double> regret_at_stop;
  double gpu_hours = 0;  ///< of all launches until its own stop, and of the finals
  /// Of the launches that runs_to_1pct counts; all where none was within 1 %.
  std::optional<double> gpu_hours_to_1pct;
  double exhaustive_gpu_hours = 0;  ///< every row launched
};

/// One row as a replay has met it.
struct ReplayedRow {
  int line = 0;  ///< of the table
  Point point;
  std::string kernel;  ///< empty: the table names none
  Outcome outcome = Outcome::crashed;
  std::optional<double> tokens_per_s_per_gpu;  ///< measured
  double gpu_hours = 0;                        ///< of its launch
};

struct ReplayedLaunch {
  ReplayedRow row;
  double predicted_tokens_per_s_per_gpu = 0;
  double sigma = 0;  ///< of its logarithm
  double fits = 1;   ///< chance that memory suffices
  bool cut_short = false;
  std::string why;  ///< it was next
};

/// Never launched.
struct ReplayedLeftOut {
  ReplayedRow row;
  std::string rule;  ///< infeasible:NAME, memory, unfit, stop, micro_batch, …
  std::string why;
};

/// What happened in a cell, launch by launch.
struct ReplayedCell {
  std::vector<ReplayedLaunch> launches;
  std::vector<ReplayedLeftOut> left_out;
};

struct ReplayReport {
  std::vector<ReplayCell> cells;      ///< growing model, sequence length and nodes
  std::vector<ReplayedCell> stories;  ///< of the same cells
};

/// Faults (invalid_input): a row that does not fit the cluster's nodes.
[[nodiscard]] Result<ReplayReport> replay(const RecordedSweep& sweep, const ReplayOptions& options);

}  // namespace shardsweep
