// SPDX-License-Identifier: Apache-2.0
// How long a train step and an attempt take: a roofline of GEMM time, pipeline bubble and
// communication by link. First version: constants, nothing fitted; good enough to order trials
// and to budget GPU-hours.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/sweep.hpp>

namespace shardsweep {

/// Model FLOPs per token, forward and backward, without recomputation (`flops_model`
/// "megatron-causal"): 6 (parameters in GEMMs, head included) + 6 L h s. Megatron-LM; causal
/// attention counts half of the s^2 products.
[[nodiscard]] double flops_per_token(const ModelSpec& model, std::int32_t seq_len);

/// Parts of one train step, in seconds; `step_s` is their sum.
struct TimeEstimate {
  double step_s = 0;
  double compute_s =
      0;  ///< GEMMs of the slowest stage, all micro-batches, recomputation included
  double bubble_s = 0;  ///< (p - 1)/m of a stage's time [Narayanan, arXiv 2104.04473]
  double tp_s = 0;      ///< all-reduces, or all-gathers and reduce-scatters, of every layer
  double pp_s = 0;      ///< activations and their gradients between stages
  double dp_s = 0;      ///< gradients and ZeRO's weights, as far as backward does not hide them
  bool nominal = false;  ///< from a nominal rate: right in order, unknown in scale
};

/// Where the cluster has no peak for the dtype, a nominal rate per GPU stands in for it:
/// 4 GFLOP/s, what a plain C++ GEMM reaches on one slow core.
[[nodiscard]] TimeEstimate estimate_time(const ModelSpec& model, const ClusterSpec& cluster,
                                         const Point& point);

/// Tokens per second and GPU of an estimate.
[[nodiscard]] double tokens_per_s_per_gpu(const TimeEstimate& time, const Point& point);

/// Memory and time of a point. train_step_s and tokens_per_s_per_gpu are 0 where the peak is
/// unknown; attempt_s never is.
[[nodiscard]] Prediction predict(const ModelSpec& model, const ClusterSpec& cluster,
                                 const Measure& measure, const Point& point);

/// GPUs that a point holds while it runs: whole nodes, or `gpus` of one.
[[nodiscard]] std::int64_t gpus_held(const ClusterSpec& cluster, const Point& point);

}  // namespace shardsweep
