// SPDX-License-Identifier: Apache-2.0
// What holds of each row by itself, and of each change of one.
#pragma once

#include <shardsweep/rows.hpp>

#include <set>

namespace shardsweep {

// Each throws BrokenInvariant.
void check_row(const TrialRow& row);
void check_row(const AttemptRow& row);
void check_row(const AllocationRow& row);
void check_row(const SweepRow& row);

void check_change(const TrialRow& before, const TrialRow& after);
void check_change(const AttemptRow& before, const AttemptRow& after);
void check_change(const AllocationRow& before, const AllocationRow& after);
void check_change(const SweepRow& before, const SweepRow& after);

// Nodes and controls have no states that depend on each other.
inline void check_change(const NodeRow&, const NodeRow&) {}
inline void check_change(const ControlRow&, const ControlRow&) {}

class World;

// Some rows of the world held to each other and to the index: a few with each pass, in turn, so
// that each row comes up again and again and no pass pays for all of them.

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
