// SPDX-License-Identifier: Apache-2.0
// How well memory is predicted, on a sweep that somebody has run.
#pragma once

#include "predict/predictor.hpp"

#include <shardsweep/recorded.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

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

[[nodiscard]] MemoryReport score_memory(const RecordedSweep& sweep, const ClusterSpec& cluster,
                                        const Family& family);

/// Each model by the family whose fitted constants (fitted_memory_constants) were fitted to the
/// rows of the other models alone; those of a table with one model stay as they are.
[[nodiscard]] MemoryReport cross_validate_memory(const RecordedSweep& sweep,
                                                 const ClusterSpec& cluster,
                                                 const Family& family);

}  // namespace shardsweep
