// SPDX-License-Identifier: Apache-2.0
// Some rows of the world held to each other and to the index: a few with each pass, in turn, so
// that each row comes up again and again and no pass pays for all of them.
#pragma once

#include "fleet/world.hpp"

#include <set>

namespace shardsweep {

class Samples {
 public:
  static constexpr int rows_per_pass = 8;  ///< rows of each kind

  /// The next rows. Throws BrokenInvariant. `apart`: sweeps that are not looked at.
  void check(const World& world, const std::set<SweepId>& apart = {});

 private:
  TrialId trial_ = 0;
  AttemptId attempt_ = 0;
  AllocationId allocation_ = 0;
};

}  // namespace shardsweep
