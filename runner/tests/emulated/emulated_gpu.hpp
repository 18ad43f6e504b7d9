// SPDX-License-Identifier: Apache-2.0
// What tests may set of the GPU that gpu.cpp emulates.
#pragma once

#include "dtype.hpp"

namespace shardbench::emulator {

/// Device memory from now on, in bytes; at first SHARDBENCH_EMULATED_GPU_BYTES of the
/// environment, or 16 GiB.
void set_gpu_memory(i64 bytes);

}  // namespace shardbench::emulator
