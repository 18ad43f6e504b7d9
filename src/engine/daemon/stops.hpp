// SPDX-License-Identifier: Apache-2.0
// A daemon that contradicts itself stops before it commits, and leaves a report. The next one
// stores that there was a stop, and holds a sweep apart that has caused two at one place.
#pragma once

#include "daemon/recent.hpp"
#include "daemon/sweeps.hpp"

#include <shardsweep/invariant.hpp>
#include <shardsweep/stop_report.hpp>

#include <map>
#include <string>
#include <vector>

namespace shardsweep {

class Stops {
 public:
  Stops(const DaemonParts& parts, World& world, Sweeps& sweeps)
      : parts_(parts), world_(world), sweeps_(sweeps) {}

  /// What earlier daemons have left: from now on Sweeps knows who is apart.
  [[nodiscard]] Result<void> read();
  /// Records what no daemon has stored yet, and pauses who is apart.
  void record();
  /// That is committed.
  void told();
  /// Writes the report. What to say at the end.
  [[nodiscard]] Fault stop(const BrokenInvariant& broken);

  Recent recent;

 private:
  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  std::vector<StopNote> untold_;
  std::map<SweepId, std::string> apart_;  ///< with the reason
};

}  // namespace shardsweep
