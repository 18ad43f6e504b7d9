// SPDX-License-Identifier: Apache-2.0
// Which rates a cluster file leaves out, and what stands in for them.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

/// Rates that a cluster file does not give, by the hardware that they belong to.
struct UnknownRates {
  bool compute = false;  ///< FLOP/s of the dtype
  bool memory = false;   ///< bytes/s of device memory
  bool inside = false;   ///< links inside a node
  bool between = false;  ///< links between nodes

  [[nodiscard]] bool any() const { return compute || memory || inside || between; }
  friend bool operator==(const UnknownRates&, const UnknownRates&) = default;
};

[[nodiscard]] UnknownRates unknown_rates(const ClusterSpec& cluster, Dtype dtype);

/// FLOP/s where the peak is unknown: a plain C++ GEMM on one slow core.
inline constexpr double nominal_flops = 4e9;

/// The cluster with a nominal bandwidth and latency in place of each that is unknown, in
/// proportion to what is known: memory to FLOP/s, links to memory. Right in order, unknown in
/// scale. A part of a step that cost nothing could never be learnt from measurements. Peaks
/// stay unknown.
[[nodiscard]] ClusterSpec with_nominal_rates(ClusterSpec cluster);

// A cluster's parameters from what its own building blocks take: the runner's microbenchmarks
// in place of a preset's typical values.

/// Figures of one run, all its ranks at once. 0: not measured.
struct BlockTimes {
  std::int32_t gpus = 1;        ///< ranks
  std::int32_t nodes = 0;       ///< whole nodes; 0: part of one
  double gemm_flops = 0;        ///< FLOP/s in all products of a model, each at its share
  double gemm_peak_flops = 0;   ///< FLOP/s in the best of them
  double attention_flops = 0;   ///< FLOP/s
  double memory_bandwidth = 0;  ///< bytes/s
  struct Transfer {
    double sent_bytes = 0;  ///< bytes per rank
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

/// True if the measured rates predict the steps worse than the preset did, by the mean distance in
/// ln(seconds).
[[nodiscard]] bool predicts_worse(const std::vector<StepCheck>& checks);

/// "Train step on 4 GPUs: 400 ms measured (390 to 430), 1,920 ms predicted, 1,470 ms with the
/// preset."
[[nodiscard]] std::string step_text(const StepCheck& check);

/// The cluster with measured rates in place of its own. A data sheet's peak and link bandwidth
/// stay, and their efficiencies are what is reached of them; if there is none, the measured rate is
/// the peak (so that MFU is a share of what the machine's own products reach) or the bandwidth.
/// Rates of a GPU are those of the run with most ranks on one node: that is how sweeps use it, and
/// ranks may share a host. Latencies are per message of TimeModel's collectives.
[[nodiscard]] ClusterSpec calibrated(
    const ClusterSpec& preset, Dtype dtype, const std::vector<BlockTimes>& runs);

}  // namespace shardsweep
