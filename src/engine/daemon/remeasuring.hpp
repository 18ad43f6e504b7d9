// SPDX-License-Identifier: Apache-2.0
// Measuring again: when a sweep that asks for it is due, its runs are made as trials, as the
// rounds of finals are. When one has ended, and when the next one is due, stands in the sweep's
// row: a daemon that starts goes on, and what was said once is not said again.
#pragma once

#include "daemon/sweeps.hpp"

#include <cstdint>
#include <vector>

namespace shardsweep {

class Remeasuring {
 public:
  Remeasuring(const DaemonParts& parts, World& world, Sweeps& sweeps)
      : parts_(parts), world_(world), sweeps_(sweeps) {}

  /// Handles sweeps without open trials: begins due runs, makes the next rounds, records what was
  /// found.
  void plan();

 private:
  [[nodiscard]] Result<void> plan(const SweepRow& sweep);
  /// False: it is not due, or there is nothing new to measure.
  [[nodiscard]] Result<bool> begin(const SweepRow& sweep, const SweepContext& context);
  void put_off(const SweepRow& sweep, const Remeasure& asked);
  /// Reads it, and notes for `status` why it can't be read.
  [[nodiscard]] Result<std::string> watched_now(
      const SweepRow& sweep, const SweepContext& context, const std::string& was);
  /// Hash of what the sweep asks to watch; `was` if it watches nothing.
  [[nodiscard]] Result<std::string> read_watched(
      const SweepContext& context, const std::string& was) const;
  [[nodiscard]] Result<void> add(const SweepRow& sweep, const std::vector<NewFinal>& due);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
};

}  // namespace shardsweep
