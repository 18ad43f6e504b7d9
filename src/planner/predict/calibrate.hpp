// SPDX-License-Identifier: Apache-2.0
// A cluster's parameters from what its own building blocks take: the runner's microbenchmarks
// in place of a preset's typical values.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// What one run measured, all its ranks at once. 0: not measured.
struct BlockTimes {
  std::int32_t gpus = 1;        ///< ranks
  std::int32_t nodes = 0;       ///< whole nodes; 0: part of one
  double gemm_flops = 0;        ///< FLOP/s in all products of a model, each at its share
  double gemm_peak_flops = 0;   ///< FLOP/s in the best of them
  double attention_flops = 0;   ///< FLOP/s
  double memory_bandwidth = 0;  ///< bytes/s
  struct Transfer {
    double sent_bytes = 0;  ///< per rank
    double seconds = 0;
  };
  std::vector<Transfer> all_reduce;  ///< smallest first
};

/// Runs of one world, repeated, as one: the median of each rate and of each vector's time. A
/// host that others use too is slow or fast by the minute.
[[nodiscard]] std::vector<BlockTimes> medians(const std::vector<BlockTimes>& runs);

/// A train step that was measured beside the blocks, and what two clusters predict for it.
struct StepCheck {
  std::int32_t gpus = 1;
  double measured_s = 0;  ///< median of the repeats
  double fastest_s = 0;
  double slowest_s = 0;
  double before_s = 0;  ///< predicted with the preset
  double after_s = 0;   ///< predicted with what was measured
};

/// Whether the measured rates predict the steps worse than the preset did, by the mean distance
/// in ln(seconds).
[[nodiscard]] bool predicts_worse(const std::vector<StepCheck>& checks);

/// "Train step on 4 GPUs: 400 ms measured (390 to 430), 1,920 ms predicted, 1,470 ms with the
/// preset."
[[nodiscard]] std::string step_text(const StepCheck& check);

/// The cluster with what was measured in place of what it said. A data sheet's peak and link
/// bandwidth stay, and their efficiencies are what is reached of them; where there is none, the
/// measured rate is the peak (so that MFU is a share of what the machine's own products reach)
/// or the bandwidth. Rates of a GPU are those of the run with most ranks on one node: that is
/// how sweeps use it, and ranks may share a host. Latencies are per message of TimeModel's
/// collectives.
[[nodiscard]] ClusterSpec calibrated(
    const ClusterSpec& preset, Dtype dtype, const std::vector<BlockTimes>& runs);

}  // namespace shardsweep
