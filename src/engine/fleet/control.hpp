// SPDX-License-Identifier: Apache-2.0
// The control of a sweep: a probe of the network between all ranks, a fixed layout, or both,
// that every allocation runs first and last. What it makes of them tells whether the
// allocation's other numbers can be held against those of others. Pure.
//
//   claimed ──► control ──► attempts … ──► no more work ──► control ──► drained
//                  │                                           │
//                  └── beyond the tolerance: drained, what it has measured is marked and
//                      measured once more elsewhere ───────────┘
#pragma once

#include "fleet/fold.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <map>
#include <optional>
#include <string>

namespace shardsweep {

/// The number by which a lead knows a control: no attempt and no probe has one like it.
[[nodiscard]] AttemptId control_attempt(const AllocationRow& allocation, ControlTime time);
/// Time of this allocation's control with that number; empty: the number is no control's.
[[nodiscard]] std::optional<ControlTime> control_time(
    const AllocationRow& allocation, AttemptId attempt);

/// Spec and point that a control runs.
struct Control {
  SweepSpec sweep;
  Point point;
};
/// Makes a control on all slots of `nodes` nodes. `example`: any trial of the sweep; a network
/// probe alone names its model. A fault if the numbers of the control's layout don't divide.
/// `example`: any trial of the sweep; a network probe alone names its model. A fault if the
/// numbers of the control's layout don't divide.
[[nodiscard]] Result<Control> control_of(
    const SweepSpec& sweep, const std::optional<Point>& example, std::int32_t nodes);

/// The control to be run now in an allocation of a sweep that asks for one: the first before
/// anything else, the last when it has measured something and gets no more work.
[[nodiscard]] std::optional<ControlTime> control_due(
    const World& world, const AllocationRow& allocation);

/// Figures of a control; 0: not measured.
struct ControlFigures {
  double tokens_per_s_per_gpu = 0;
  double busbw_bytes_per_s = 0;
};

/// A control has ended. Ratios are those to the median of the sweep's controls on as many
/// nodes. Where one is beyond its tolerance, and there are policy.control_least of them, its
/// allocation is given up.
void take_control(Fold fold, const Policy& policy, const AllocationRow& allocation,
    ControlTime time, const ControlFigures& figures, const std::string& cause);

/// A node of it has been checked, which is an allocation's first act
/// (attempt/node_verdict.hpp).
void take_checked(Fold fold, const AllocationRow& allocation, const Checked& checked);
/// True if the check at its start has blamed a node.
[[nodiscard]] bool has_bad_node(const World& world, AllocationId allocation);
/// The median over all nodes that were ever checked, by their device; of each node the last
/// check counts. Devices of which too few are known are not there.
[[nodiscard]] std::map<std::string, double> usual_speeds(
    const World& world, double ControlRow::*value);

/// True if measurements of this allocation can't be trusted.
[[nodiscard]] bool control_is_off(
    const World& world, const Policy& policy, AllocationId allocation);

}  // namespace shardsweep
