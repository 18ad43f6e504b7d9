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

/// What a trainer's own code costs, beside hardware. Seconds are the host's, per micro-batch.
struct TimeFamily {
  /// Of the rates that a cluster's efficiencies stand for, which good kernels reach, what the
  /// trainer's own reach.
  double gemm_share = 1;
  double attention_share = 1;
  LinkShares links{};
  double launch_layer_s = 0;     ///< of a layer's kernels, forward and backward
  double launch_layer_tp_s = 0;  ///< the same with tensor parallelism
  /// Added per TP rank with tensor parallelism inside a pipeline.
  double launch_layer_pipeline_tp_s = 0;
  double launch_stage_s = 0;     ///< of what is not in a layer
  double stage_message_s = 0;    ///< of a stage's receives and sends
  double activation_passes = 3;  ///< times a layer's activations move through memory
  double parameter_bytes = 14;   ///< moved per parameter: read three times, gradient added
  double logit_bytes = 12;       ///< moved per logit
  double tp_exposed = 1;         ///< of TP's transfers, what no product hides
  double overlap = 0.7;          ///< of backward, what DP's transfers hide behind
  double update_bytes = 40;      ///< moved per parameter by clipping and update
  double update_s = 0;           ///< the update's launches
  double gather_tensor_s = 0;    ///< ZeRO 1: per tensor of the stage
  double gather_part_s = 0;      ///< ZeRO 1: per tensor and rank that has a part of it
  double recomputed_again = 1;   ///< of a layer's forward under full recomputation
  double selective_again = 0;    ///< of a layer's products' forward under selective
  /// Products of experts are narrow: with w columns they reach w / (w + this) of what a layer's
  /// do, with twice as much in FP8, whose products alone are faster.
  double narrow_columns = 512;
  /// With sequence parallel a rank sends the rows of its own part alone to experts.
  bool sends_parts = false;
  /// A row goes once to each node that has experts of its choice, and on from there.
  bool once_per_node = false;
  /// FP8: weights are quantized once per train step, and what a norm or an activation writes is
  /// quantized as it is written.
  bool fused_quantization = false;
};

/// Parts of one train step, in seconds; `step_s` is their sum.
struct TimeEstimate {
  double step_s = 0;
  double compute_s = 0;  ///< matrix products of the slowest stage, recomputation included
  double memory_s = 0;   ///< what moves through device memory between them
  double launch_s = 0;   ///< how much longer the host takes to launch than the device to run
  double tp_s =
      0;  ///< all-reduces, or all-gathers and reduce-scatters, of every layer; its ring over cp
  double pp_s = 0;       ///< activations and their gradients between stages
  double bubble_s = 0;   ///< (p - 1)/(v m) of a stage's time [Narayanan, arXiv 2104.04473]
  double dp_s = 0;       ///< gradients and ZeRO's weights, as far as backward does not hide them
  double update_s = 0;   ///< the optimizer
  bool nominal = false;  ///< from a nominal rate: right in order, unknown in scale
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
