// SPDX-License-Identifier: Apache-2.0
// A lead that says nothing any more: stopped, or its host stands still, or it has left, while the
// scheduler calls the job running. Or it was started on another machine, where nobody can look for
// it, and may never have claimed its allocation. Pure.
#pragma once

#include "fleet/allocation.hpp"
#include "fleet/fold.hpp"

#include <shardsweep/policy.hpp>

namespace shardsweep {

/// Judges a lead's silence; its lines up to now are folded. The lead's own clock is not used,
/// because it may be hours off. A process that has read a line waits for half of
/// policy.lead_limit_s before it notes in the row that the lead is quiet. A process that has read
/// none notes it at its first look, because passes from cron are processes of their own. If no line
/// comes within half the limit after that note, the allocation is to be cancelled, and its running
/// attempt is a node failure. One of another machine that nobody has claimed is over
/// policy.claim_limit_s after the first look that has found it there.
void judge_silence(Fold fold, const Policy& policy, const AllocationRow& allocation);

}  // namespace shardsweep
