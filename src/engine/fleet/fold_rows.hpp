// SPDX-License-Identifier: Apache-2.0
// What the two halves of the fold share: the lead's lines (fold.cpp) and the scheduler's
// answers (fold_scheduler.cpp).
#pragma once

#include "fleet/fold.hpp"

namespace shardsweep {

/// Records an event; adds the time, and the sweep of its trial or allocation.
void add_event(Fold fold, AddEvent event);

}  // namespace shardsweep
