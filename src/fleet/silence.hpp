// SPDX-License-Identifier: Apache-2.0
// A lead that has claimed its allocation and says nothing any more: stopped, or its host stands
// still, or it has left, while the scheduler calls the job running. Pure.
#pragma once

#include "fleet/allocation.hpp"
#include "fleet/fold.hpp"

#include <shardsweep/policy.hpp>

namespace shardsweep {

/// Its lines up to now are folded. Half of policy.lead_limit_s is taken by the lead's own clock
/// (the time of its last line), half by ours (what is noted in the row): neither a clock that
/// is off nor a daemon that has just come gives a living lead up. After that the allocation is
/// to be cancelled, and what ran in it is a node failure.
void judge_silence(Fold fold, const Policy& policy, const AllocationRow& allocation);

}  // namespace shardsweep
