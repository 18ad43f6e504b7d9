// SPDX-License-Identifier: Apache-2.0
// The control of a sweep: a fixed layout that every allocation runs first and last. What it
// makes of it tells whether the allocation's other numbers can be held against those of others.
// Pure.
//
//   claimed ──► control ──► attempts … ──► no more work ──► control ──► drained
//                  │                                           │
//                  └── beyond the tolerance: drained, what it has measured is marked and
//                      measured once more elsewhere ───────────┘
#pragma once

#include "domain/fold.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/world.hpp>

#include <optional>
#include <string>

namespace shardsweep {

/// The number by which a lead knows a control: no attempt and no probe has one like it.
[[nodiscard]] AttemptId control_attempt(const AllocationRow& allocation, ControlTime time);
/// Which control of this allocation has that number; none: it is something else's.
[[nodiscard]] std::optional<ControlTime> control_time(const AllocationRow& allocation,
                                                      AttemptId attempt);

/// The layout of sweep.control over all slots of `nodes` nodes. A fault where its numbers don't
/// divide.
[[nodiscard]] Result<Point> control_point(const SweepSpec& sweep, std::int32_t nodes);

/// The control to be run now in an allocation of a sweep that asks for one: the first before
/// anything else, the last when it has measured something and gets no more work.
[[nodiscard]] std::optional<ControlTime> control_due(const World& world,
                                                     const AllocationRow& allocation);

/// A control has ended, with 0 tokens/s where it was not measured. Ratios are those to the
/// median of the sweep's controls on as many nodes. Where it is beyond the tolerance, and there
/// are policy.control_least of them, its allocation is given up.
void take_control(Fold fold, const Policy& policy, AllocationRow& allocation, ControlTime time,
                  double tokens_per_s, const std::string& cause);

/// What is measured in this allocation is not to be believed.
[[nodiscard]] bool control_is_off(const World& world, const Policy& policy,
                                  AllocationId allocation);

}  // namespace shardsweep
