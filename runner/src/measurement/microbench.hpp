// SPDX-License-Identifier: Apache-2.0
// Timings of the building blocks, for judging a train step and for calibrating a planner.
#pragma once

#include "device/platform.hpp"

#include <optional>
#include <string>

namespace shardbench {

/// One rank: every matrix product of the model alone, and a whole train step against them.
/// Several ranks: all-reduce times by size, before them or in their place the network probe, if
/// it is asked for. Rank 0 prints one JSON object on stdout.
void run_microbench(const Options& options, const PlatformKind& kind);

/// Times these blocks amid a run, on all ranks at once, as train steps have them: a JSON object.
/// Collective over `world`; the figures are this rank's.
///   products, gemm_gflops: all matrix products of the whole model; gemm_peak_gflops: the best
///   attention_gflops: forward, 2 s h FLOPs per token (causal)
///   memory_gb_per_s: a sum of two vectors that no cache holds
///   launch_us: the smallest operation
///   all_reduce: of floats; median_ms by sent_bytes per rank, smallest first (several ranks)
std::string building_blocks(Device& device, const Options& options, Communicator& world);

/// Bytes of each of the three vectors that measure the memory's bandwidth. Each is four times the
/// largest cache, so that no vector is read from it; all three take at most half of a rank's
/// memory.
i64 bandwidth_vector_bytes(i64 cache_bytes, std::optional<i64> memory_limit);

/// How fast the network between all ranks is, for comparing allocations: a JSON object.
/// Collective over all of them.
///   all_reduce_bytes, median_ms: of its slowest rank
///   busbw_gb_per_s: 2 (n - 1) / n bytes over the time, the bus bandwidth of nccl-tests
struct NetworkToProbe {
  Device& device;
  Communicator& world;   // all ranks, over the device's memory
  Communicator& report;  // all ranks, over the host's memory
  i64 bytes;
};
std::string network_probe(const NetworkToProbe& network);

}  // namespace shardbench
