// SPDX-License-Identifier: Apache-2.0
// How long a train step takes: matrix products and memory traffic of the slowest stage, or the
// host that launches them, whichever is slower; collectives by link; pipeline; update.
#pragma once

#include "predict/links.hpp"
#include "predict/memory.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

#include <array>
#include <cstdint>

namespace shardsweep {

/// Model FLOPs per token, forward and backward, without recomputation (`flops_model`
/// "megatron-causal"): 6 (parameters in GEMMs, head included) + 3 L (q + v) s, q and v the
/// values of all heads' queries and values: 6 L h s, as they usually are. Megatron-LM; causal
/// attention counts half of the s^2 products. Layers that predict later tokens (MTP) are layers
/// more, with their projection 2h^2 and one more pass through the head each.
[[nodiscard]] double flops_per_token(const ModelSpec& model, std::int32_t seq_len);

/// Parts of one train step, in seconds; `step_s` is their sum.
struct TimeEstimate {
  double step_s = 0;
  double compute_s = 0;  ///< matrix products of the slowest stage, recomputation included
  double memory_s = 0;   ///< traffic through device memory between them
  double launch_s = 0;   ///< how much longer the host takes to launch than the device to run
  double tp_s = 0;  ///< tp's all-reduces, or all-gathers and reduce-scatters, of every layer; its
                    ///< ring over cp
  double pp_s = 0;  ///< activations and their gradients between stages
  double bubble_s = 0;   ///< (p - 1)/(v m) of a stage's time [Narayanan, arXiv 2104.04473]
  double dp_s = 0;       ///< gradients and ZeRO's weights, as far as backward does not hide them
  double update_s = 0;   ///< the optimizer
  bool nominal = false;  ///< true: from a nominal rate, right in order, unknown in scale
  /// d ln(step) / d ln(seconds) of: products, memory, host, TP, DP, stages, update. By how much
  /// a step would be longer if one of them were.
  std::array<double, 7> weights{};
};

/// Where the cluster has no peak for the dtype, a nominal rate per GPU stands in for it:
/// 4 GFLOP/s, what a plain C++ GEMM reaches on one slow core.
[[nodiscard]] TimeEstimate estimate_time(const ModelSpec& model, const ClusterSpec& cluster,
    const Point& point, const TimeFamily& family, const MemoryFamily& memory,
    const RunTraits& traits = {});

/// Tokens per second and GPU of a train step.
[[nodiscard]] double speed_of(double step_s, const Point& point);

/// GPUs that a point holds while it runs: whole nodes, or `gpus` of one.
[[nodiscard]] std::int64_t gpus_held(const ClusterSpec& cluster, const Point& point);

}  // namespace shardsweep
