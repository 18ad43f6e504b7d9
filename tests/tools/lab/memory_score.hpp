// SPDX-License-Identifier: Apache-2.0
// The memory model against tables of runs: the verdict on one row, how well all rows of a table
// are predicted, and which of a family's constants were fitted to such a table. A constant that
// was fitted to the rows it is judged by proves nothing: so each model is also judged by what
// the other models alone would have given.
#pragma once

#include "predict/family.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/recorded.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

// One row may not say all that memory depends on.

/// What a row says of its run that is no axis: its kernel, how it recomputes, whose peak it
/// has.
[[nodiscard]] RunTraits traits_of(const RecordedRun& run);

/// The row's point where what it does not say is at its best for memory: sequence parallelism
/// beside TP, ZeRO 3 over its DP ranks, full recompute. Of a sample that is split over context
/// parallel ranks one rank's part remains: the families know no such ranks.
[[nodiscard]] Point point_at_best(const RecordedRun& run);

/// |predicted / reported - 1| over some rows.
struct RelativeError {
  std::int64_t rows = 0;
  std::optional<double> median;  ///< none of no rows
  std::optional<double> p90;     ///< nearest rank
};

/// Rows that completed with an OOM in their log are neither good nor OOM.
struct MemoryScore {
  std::string model;  ///< empty: of all models
  RelativeError peak;
  /// What tensors hold around the update, where the table says it.
  RelativeError allocated;
  std::int64_t good = 0;
  std::int64_t good_left_out = 0;  ///< fits not even by the optimistic bound
  std::int64_t good_doubtful = 0;
  std::int64_t oom = 0;
  std::int64_t caught = 0;        ///< left out before any run
  std::int64_t missed = 0;        ///< not left out
  std::int64_t oom_doubtful = 0;  ///< of the missed, those that run late
};

struct MemoryReport {
  std::vector<MemoryScore> models;  ///< in the order of the table's models
  MemoryScore total;
};

[[nodiscard]] MemoryReport score_memory(
    const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family);

/// Each model by the family whose fitted constants (fitted_memory_constants) were fitted to the
/// rows of the other models alone; those of a table with one model stay as they are.
[[nodiscard]] MemoryReport cross_validate_memory(
    const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family);

// Which of a family's memory constants were fitted to a table of runs, and what they would be
// had some of its rows been unknown: how much of a memory model's fit holds for a model that
// nobody has run.

/// A constant that no paper and no source says. All others of a family are counted from what
/// its trainers keep.
struct FittedConstant {
  std::string_view name;
  double MemoryFamily::*value;
  double step = 0;  ///< to which it is worth knowing, in its own unit
  double most = 0;  ///< searched from 0 up to here
};

/// Empty for a family of which nothing was fitted.
[[nodiscard]] std::span<const FittedConstant> fitted_memory_constants(std::string_view family);

/// The family with these constants fitted to the completed rows of `sweep`, but for those of
/// models named `without` (empty: all rows): the least sum of |ln(predicted / reported peak)|,
/// found by searching one constant after the other. The optimistic bound takes over a constant
/// that it shares with the estimate. Unchanged where no row reports a peak.
[[nodiscard]] Family refit_memory(const RecordedSweep& sweep, const ClusterSpec& cluster,
    const Family& family, std::string_view without);

}  // namespace shardsweep
