// SPDX-License-Identifier: Apache-2.0
// The claim: of all leads that Slurm may start for one allocation, one runs something.
#pragma once

#include <shardsweep/allocation_files.hpp>

#include <string>

namespace shardsweep {

/// True for the one caller that has won. `nonce` is the caller's own and random.
[[nodiscard]] Result<bool> claim_allocation(
    const AllocationPaths& allocation, const std::string& nonce);

/// 128 random bits in hexadecimal, from the kernel.
[[nodiscard]] Result<std::string> random_nonce();

}  // namespace shardsweep
