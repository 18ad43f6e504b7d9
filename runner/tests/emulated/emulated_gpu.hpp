// SPDX-License-Identifier: Apache-2.0
// What tests may set of the GPU that gpu.cpp emulates.
#pragma once

#include "cuda/gpu.hpp"
#include "device/gemm_key.hpp"

#include <vector>

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

/// Events recorded from now on are that much later.
void advance_clock(double seconds);

/// Products prepared from now on have so many candidates, each slower by so much; at first one.
void set_product_delays(std::vector<double> seconds);
struct ProductRun {
  GemmKey key;
  std::size_t candidate;
  const void* output;
};
/// Runs of products with several candidates, since the last call.
std::vector<ProductRun> take_product_runs();

}  // namespace shardbench::emulator
