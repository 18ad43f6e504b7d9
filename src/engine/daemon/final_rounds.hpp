// SPDX-License-Identifier: Apache-2.0
// The rounds of finals and the side runs behind them, made as trials before what has led to
// them is committed: at no moment a sweep looks ended that goes on. After a crash the same rows
// ask for the same round, and a run that is there is not made again.
#pragma once

#include "daemon/sweeps.hpp"

#include <cstdint>
#include <set>
#include <utility>

namespace shardsweep {

class FinalRounds {
 public:
  FinalRounds(const DaemonParts& parts, World& world, Sweeps& sweeps)
      : parts_(parts), world_(world), sweeps_(sweeps) {}

  /// Makes the rounds that are due after what has just ended.
  void plan();
  /// Rows were read anew: any sweep may have one due.
  void look_at_all() { all_ = true; }

 private:
  void see_all();
  [[nodiscard]] static bool runs_more(const SweepSpec& spec);
  [[nodiscard]] Result<void> plan(const SweepRow& sweep, std::int32_t nodes);
  [[nodiscard]] Result<void> keep_apart(
      const std::vector<FinalsRow>& rows, std::vector<NewFinal>& due) const;

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  std::set<std::pair<SweepId, std::int32_t>> due_;  ///< node counts of sweeps that are to be looked
                                                    ///< at
  bool all_ = true;
};

}  // namespace shardsweep
