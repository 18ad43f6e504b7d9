// SPDX-License-Identifier: Apache-2.0
// What tests may set of the GPU that gpu.cpp emulates.
#pragma once

#include "cuda/gpu.hpp"

namespace shardbench::emulator {

/// Device memory from now on, in bytes; at first SHARDBENCH_EMULATED_GPU_BYTES of the
/// environment, or 16 GiB.
void set_gpu_memory(i64 bytes);

/// Shared memory of a block from now on; at first that of compute capability 8.0.
void set_shared_memory(i64 bytes);

/// An event is reached when it has been asked that often since it was recorded; at first at
/// once.
void set_polls_until_reached(int polls);

bool has_high_priority(gpu::Stream stream);

}  // namespace shardbench::emulator
