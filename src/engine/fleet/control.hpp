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

/// Number by which a lead knows a control. No attempt and no probe has the same.
[[nodiscard]] AttemptId control_attempt(const AllocationRow& allocation, ControlTime time);
/// Time of this allocation's control with that number; empty: the number is no control's.
[[nodiscard]] std::optional<ControlTime> control_time(
    const AllocationRow& allocation, AttemptId attempt);

/// Spec and point that a control runs.
struct Control {
  SweepSpec sweep;
  Point point;
};
/// Makes a control on all slots of `nodes` nodes. `example` is any trial of the sweep; a control
/// that only probes the network takes its model from it. A fault if the numbers of the control's
/// layout don't divide.
[[nodiscard]] Result<Control> control_of(
    const SweepSpec& sweep, const std::optional<Point>& example, std::int32_t nodes);

/// The control that an allocation has to run now, if its sweep asks for controls: the first one
/// before anything else, the last one once the allocation has measured something and gets no more
/// work.
[[nodiscard]] std::optional<ControlTime> control_due(
    const World& world, const AllocationRow& allocation);

/// Figures of a control; 0: not measured.
struct ControlFigures {
  double tokens_per_s_per_gpu = 0;
  double busbw_bytes_per_s = 0;
};

/// Takes the end of a control. Its ratios compare it with the median of the sweep's controls on as
/// many nodes. If one ratio is beyond its tolerance and at least policy.control_least controls are
/// known, the allocation is given up.
void take_control(Fold fold, const Policy& policy, const AllocationRow& allocation,
    ControlTime time, const ControlFigures& figures, const std::string& cause);

/// Takes the check of a node, which is an allocation's first act (attempt/node_verdict.hpp).
void take_checked(Fold fold, const AllocationRow& allocation, const Checked& checked);
/// True if the check at its start has blamed a node.
[[nodiscard]] bool has_bad_node(const World& world, AllocationId allocation);
/// Median speed of each device over all nodes that were ever checked, with the last check of each
/// node. Devices of which too few nodes were checked are left out.
[[nodiscard]] std::map<std::string, double> usual_speeds(
    const World& world, double ControlRow::*value);

/// True if measurements of this allocation can't be trusted.
[[nodiscard]] bool control_is_off(
    const World& world, const Policy& policy, AllocationId allocation);

}  // namespace shardsweep
