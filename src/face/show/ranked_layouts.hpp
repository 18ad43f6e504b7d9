// SPDX-License-Identifier: Apache-2.0
// Layouts of cells as `best` ranks them, for whoever needs more of them than a printed table.
#pragma once

#include "answer/verdict.hpp"

#include <shardsweep/described.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// A layout of a cell: its median run, and how often it ran.
struct RankedLayout {
  std::string model;
  std::int64_t seq_len = 0;
  std::int64_t nodes = 0;  ///< 0: a world smaller than a node
  std::int64_t gpus = 0;
  std::string layout;
  double tokens_per_s_per_gpu = 0;
  std::optional<double> mfu;
  std::optional<double> train_step_ms;
  std::optional<std::int64_t> peak_memory_bytes;
  std::string sweep;
  std::string trial;
  std::string runner;
  std::string runner_version;
  std::int64_t repeats = 1;
  std::optional<double> repeat_spread;
  double resolution = 0;    ///< share of the speed that its log rounds away
  double sm_clock_mhz = 0;  ///< 0: not known
  double step_spread = 0;
  std::int64_t steps = 0;
  double others_cpu = 0;
  std::int64_t rank = 1;  ///< place in the answer of its cell
  /// Values of the cluster and the vars, by RankedLayouts::settings.
  std::vector<Value> settings{};

  /// Speed times `factor`, as verdicts compare it.
  [[nodiscard]] LayoutSpeed speed(double factor = 1) const;
};
SHARDSWEEP_DESCRIBE(RankedLayout, model, seq_len, nodes, gpus, layout, tokens_per_s_per_gpu, mfu,
    train_step_ms, peak_memory_bytes, sweep, trial, runner, runner_version, repeats, repeat_spread,
    resolution, sm_clock_mhz, step_spread, steps, others_cpu, rank);

struct RankedLayouts {
  /// Columns that tell cells apart beside model and size: the cluster, if there are several, and
  /// vars.
  std::vector<std::string> settings;
  std::vector<RankedLayout> rows;
};

/// The rows of Reader::layouts(). A baseline of an older version may lack figures.
[[nodiscard]] RankedLayouts ranked_layouts(Table table);

}  // namespace shardsweep
