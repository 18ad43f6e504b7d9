// SPDX-License-Identifier: Apache-2.0
// What a search begins with: runs of earlier sweeps (search.learn_from), and of files of
// knowledge. The daemon, `plan` and `knowledge export` choose them by these rules, so that they
// mean the same runs.
#pragma once

#include "search/extrapolation.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/search_row.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

/// A run that another search may learn from.
struct EarlierRun {
  Timestamp ended_at = 0;    ///< 0: before all runs of the database
  std::string version = {};  ///< version of its trainer
  Experience is;
};

/// Trials of a sweep that had ended at `until` and whose outcome tells about their layout.
[[nodiscard]] std::vector<EarlierRun> earlier_runs(
    const SweepSpec& sweep, std::span<const SearchRow> rows, Timestamp until);

/// Gathers them, from any number of origins.
class EarlierRuns {
 public:
  /// Limit of runs: the latest are kept.
  static constexpr std::size_t most = 1000;

  EarlierRuns() = default;
  /// Keeps runs in one of these dtypes alone: kernels of another one have errors of their own.
  explicit EarlierRuns(std::set<Dtype> dtypes) : dtypes_(std::move(dtypes)) {}

  /// Adds runs of a sweep of this database.
  void add(std::vector<EarlierRun> runs);
  /// Adds runs of a file; call it after all sweeps. A run that a sweep or another file also has is
  /// added once.
  void add_file(std::vector<EarlierRun> runs);
  /// Runs in the order in which they ended, as a cell hears its own runs: files first.
  [[nodiscard]] std::vector<EarlierRun> latest() const;
  /// Runs that were left out for their dtype.
  [[nodiscard]] std::int64_t of_other_dtype() const { return of_other_dtype_; }

 private:
  [[nodiscard]] bool is_wanted(const EarlierRun& run);

  std::optional<std::set<Dtype>> dtypes_;
  std::int64_t of_other_dtype_ = 0;
  std::vector<EarlierRun> runs_;
  std::map<std::string, std::size_t> seen_;  ///< how often each run is there
};

}  // namespace shardsweep
