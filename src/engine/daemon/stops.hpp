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

  /// Reads what earlier daemons left; Sweeps then knows which sweeps are apart.
  [[nodiscard]] Result<void> read();
  /// Records what no daemon has stored yet, and pauses who is apart.
  void record();
  /// Forgets stops that are now committed.
  void told();
  /// Writes the report. What to say at the end.
  [[nodiscard]] Fault stop(const BrokenInvariant& broken);

  Recent recent;

 private:
  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  std::vector<StopNote> untold_;
  std::map<SweepId, std::string> apart_;  ///< reasons by sweep
};

}  // namespace shardsweep
