// SPDX-License-Identifier: Apache-2.0
// Runs that nobody has submitted: rounds of finals, side runs behind them, and layouts of a sweep
// that has ended, measured again. They are made as trials before what has led to them is
// committed: at no moment a sweep looks ended that goes on. After a crash the same rows ask for
// the same runs, and a run that is there is not made again.
#pragma once

#include "daemon/sweeps.hpp"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace shardsweep {

class MoreRuns {
 public:
  MoreRuns(const DaemonParts& parts, World& world, Sweeps& sweeps)
      : parts_(parts), world_(world), sweeps_(sweeps) {}

  /// Makes the rounds of finals and the side runs that are due after what has just ended.
  void plan_behind_cells();
  /// Rows were read anew: any sweep may have one due.
  void look_at_all() { all_ = true; }
  /// Measures sweeps without open trials again: begins due runs, makes the next rounds, records
  /// what was found. When one has ended, and when the next one is due, stands in the sweep's row.
  void plan_again();

 private:
  // Finals and side runs.
  void see_all();
  [[nodiscard]] Result<void> plan_cells(const SweepRow& sweep, std::int32_t nodes);
  [[nodiscard]] Result<void> keep_apart(
      const std::vector<FinalsRow>& rows, std::vector<NewFinal>& due) const;

  // Measuring again.
  [[nodiscard]] Result<void> plan_again(const SweepRow& sweep);
  /// False: it is not due, or there is nothing new to measure.
  [[nodiscard]] Result<bool> begin(const SweepRow& sweep, const SweepContext& context);
  void put_off(const SweepRow& sweep, const Remeasure& asked);
  /// Reads it, and notes for `status` why it can't be read.
  [[nodiscard]] Result<std::string> watched_now(
      const SweepRow& sweep, const SweepContext& context, const std::string& was);
  /// Hash of what the sweep asks to watch; `was` if it watches nothing.
  [[nodiscard]] Result<std::string> read_watched(
      const SweepContext& context, const std::string& was) const;

  // Both.
  [[nodiscard]] Result<bool> has_budget(SweepId sweep, const Policy& policy) const;
  [[nodiscard]] Result<void> add(
      const SweepRow& sweep, const Measure& measure, std::vector<NewFinal> due);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  std::set<std::pair<SweepId, std::int32_t>> due_;  ///< sweeps and node counts to look at
  bool all_ = true;
};

}  // namespace shardsweep
