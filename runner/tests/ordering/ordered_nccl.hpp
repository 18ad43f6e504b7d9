// SPDX-License-Identifier: Apache-2.0
// An NCCL whose operations are accesses to memory in the streams of the ordered GPU.
#pragma once

#include "nccl/nccl_table.hpp"

namespace shardbench::ordered {

/// `order`: by_events, it does not keep the order in which its kernels are launched, so that
/// two of different communicators that nothing orders are a race.
NcclTable nccl(NcclOrder order);

}  // namespace shardbench::ordered
