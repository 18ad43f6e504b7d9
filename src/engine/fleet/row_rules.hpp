// SPDX-License-Identifier: Apache-2.0
// What holds of each row by itself, and of each change of one.
#pragma once

#include <shardsweep/rows.hpp>

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

}  // namespace shardsweep
