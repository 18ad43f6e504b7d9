// SPDX-License-Identifier: Apache-2.0
// Timings of the building blocks, for judging a train step and for calibrating a planner.
#pragma once

#include "options.hpp"

namespace shardbench {

/// One rank: every matrix product of the model alone, and a whole train step against them.
/// Several ranks: all-reduce times by size. Rank 0 prints one JSON object on stdout.
void run_microbench(const Options& options);

}  // namespace shardbench
