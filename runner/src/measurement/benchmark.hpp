// SPDX-License-Identifier: Apache-2.0
// One run of one rank, from rendezvous to the result record.
#pragma once

#include "device/platform.hpp"

namespace shardbench {

/// Returns when the result is on disk; every failure leaves through fail().
void run_benchmark(const Options& options, const PlatformKind& kind);

}  // namespace shardbench
