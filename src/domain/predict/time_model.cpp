// SPDX-License-Identifier: Apache-2.0
#include "domain/predict/time_model.hpp"

#include "domain/predict/memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace shardsweep {
namespace {

/// Of the dense peak, by dtype: Llama-shaped bf16 GEMMs reach 0.7-0.8 of it (notes on MAMF:
/// 794 of 989 TFLOP/s on an H100), and what lies between them costs a quarter more.
constexpr std::array<double, 3> efficiency{0.55, 0.7, 0.7};
/// FLOP/s where the peak is unknown: a plain C++ GEMM on one slow core.
constexpr double nominal_rate = 4e9;
/// Of backward, what DP communication can hide behind when it overlaps.
constexpr double hidden_share = 0.5;
/// Seconds from launch to the first train step: processes and sockets, or contexts,
/// communicators and weights on a GPU node.
constexpr double cpu_start_s = 0.5;
constexpr double gpu_start_s = 20;

struct Link {
  double bandwidth;  // bytes/s; 0: unknown, taken as free
  double latency_s;
};

double real(std::int64_t value) {
  return static_cast<double>(value);
}

// Ranks of a group of `size` with `stride` between neighbours lie on one node or they don't.
Link link_of(const ClusterSpec& cluster, std::int64_t stride, std::int64_t size) {
  constexpr double micro = 1e-6;
  if (stride * size <= cluster.gpus_per_node)
    return {cluster.intra_node_bandwidth, cluster.intra_node_latency_us * micro};
  return {cluster.inter_node_bandwidth, cluster.inter_node_latency_us * micro};
}

struct Links {
  Link tp, pp;
  Link shard;      // the ranks that share one copy; all of dp without replicas
  Link replicate;  // those that hold the same part of it
};

Links links_of(const ClusterSpec& cluster, const Layout& layout) {
  const std::int64_t tp = layout.tp;
  const std::int64_t dp = layout.dp;
  const std::int64_t pp = layout.pp;
  std::int64_t tp_stride = 1;
  std::int64_t dp_stride = tp;
  std::int64_t pp_stride = tp * dp;
  if (layout.rank_order == RankOrder::tp_pp_dp) {
    pp_stride = tp;
    dp_stride = tp * pp;
  } else if (layout.rank_order == RankOrder::dp_tp_pp) {
    dp_stride = 1;
    tp_stride = dp;
  }
  // Between two stages only the neighbours talk, but some pair of them crosses.
  const std::int64_t shards = layout.shard_ranks();
  return {link_of(cluster, tp_stride, tp), link_of(cluster, pp_stride, pp),
          link_of(cluster, dp_stride, shards),
          link_of(cluster, dp_stride * shards, layout.dp_replicate)};
}

double transfer_s(const Link& link, double bytes, double messages) {
  const double moving = link.bandwidth > 0 ? bytes / link.bandwidth : 0;
  return moving + messages * link.latency_s;
}

double layer_gemm_parameters(const ModelSpec& model) {
  const double hidden = real(model.hidden);
  const double kv_share = real(model.kv_heads) / real(model.heads);
  return 2 * hidden * hidden * (1 + kv_share) + 3 * hidden * real(model.ffn);
}

// FLOPs per token of the slowest stage: ceil(L/p) layers, and the head on the last one.
double stage_flops_per_token(const ModelSpec& model, const Point& point) {
  const auto& layout = point.layout;
  const double layer =
      6 * layer_gemm_parameters(model) + 6 * real(model.hidden) * point.seq_len;
  const double again = layout.recompute == Recompute::full ? 4.0 / 3.0 : 1;
  const double head = 6 * real(model.vocab) * real(model.hidden);
  const auto even = model.layers / layout.pp;
  const auto most = even + (model.layers % layout.pp != 0 ? 1 : 0);
  return std::max(real(most) * layer * again, real(even) * layer * again + head);
}

// Per micro-batch and stage. Bytes sent per rank and layer: 16 sbh (t-1)/t, 24 with full
// recomputation; with sequence parallel 20 and 28 (ring; Korthikanti, arXiv 2205.05198, 4.2.2).
double tp_s(const ModelSpec& model, const Point& point, const Link& link) {
  const auto& layout = point.layout;
  if (layout.tp == 1) return 0;
  const double element = real(bytes_of(point.dtype));
  const double row = element * point.seq_len * layout.micro_batch * real(model.hidden);
  const bool full = layout.recompute == Recompute::full;
  const double rows = layout.sequence_parallel ? (full ? 14 : 10) : (full ? 12 : 8);
  const double operations = layout.sequence_parallel ? (full ? 12 : 8) : (full ? 6 : 4);
  const double layers = std::ceil(real(model.layers) / layout.pp);
  const double share = 1 - 1.0 / layout.tp;
  return layers * transfer_s(link, rows * row * share, operations);
}

// Per micro-batch: one activation forward, its gradient backward.
double pp_s(const ModelSpec& model, const Point& point, const Link& link) {
  const auto& layout = point.layout;
  if (layout.pp == 1) return 0;
  const double element = real(bytes_of(point.dtype));
  const double shards = layout.sequence_parallel ? layout.tp : 1;
  const double row = element * point.seq_len * layout.micro_batch * real(model.hidden) / shards;
  return transfer_s(link, 2 * row, 2);
}

double local_parameters(const ModelSpec& model, const Layout& layout) {
  return real(parameters(model)) / (real(layout.tp) * layout.pp);
}

// Per train step, bytes sent per rank in units of (d-1)/d local parameters: gradients twice
// (all-reduce); ZeRO-1 gradients once, weights once; ZeRO-2 gradients every micro-batch;
// ZeRO-3 weights twice and gradients once every micro-batch [arXiv 1910.02054, section 7].
double dp_s(const ModelSpec& model, const Point& point, const Link& link) {
  const auto& layout = point.layout;
  const std::int32_t shards = layout.shard_ranks();
  if (shards == 1) return 0;
  const double element = real(bytes_of(point.dtype));
  const double gradient = std::max(element, 4.0);
  const double accum = layout.grad_accum;
  std::array<double, 4> bytes{2 * gradient, gradient + element, accum * gradient + element,
                              accum * (2 * element + gradient)};
  const double share = 1 - 1.0 / shards;
  const double local = local_parameters(model, layout);
  const double sent = share * local * bytes[static_cast<std::size_t>(layout.zero)];
  constexpr double mib = 1024 * 1024;
  return transfer_s(link, sent, std::ceil(sent / (layout.bucket_mb * mib)));
}

// Once per train step replicas all-reduce the gradients of their parts, a layer at a time.
double replicate_s(const ModelSpec& model, const Point& point, const Link& link) {
  const auto& layout = point.layout;
  if (layout.dp_replicate == 1) return 0;
  const double gradient = std::max(real(bytes_of(point.dtype)), 4.0);
  const double share = 1 - 1.0 / layout.dp_replicate;
  const double part = local_parameters(model, layout) / layout.shard_ranks();
  return transfer_s(link, 2 * share * gradient * part,
                    std::ceil(real(model.layers) / layout.pp));
}

}  // namespace

double flops_per_token(const ModelSpec& model, std::int32_t seq_len) {
  const double gemm = real(model.layers) * layer_gemm_parameters(model) +
                      real(model.vocab) * real(model.hidden);
  return 6 * gemm + 6 * real(model.layers) * real(model.hidden) * seq_len;
}

TimeEstimate estimate_time(const ModelSpec& model, const ClusterSpec& cluster,
                           const Point& point) {
  const auto& layout = point.layout;
  const auto dtype = static_cast<std::size_t>(point.dtype);
  TimeEstimate time;
  time.nominal = !cluster.peak_flops[dtype].has_value();
  const double rate =
      time.nominal ? nominal_rate : *cluster.peak_flops[dtype] * efficiency[dtype];
  const double tokens = real(point.seq_len) * layout.micro_batch;
  const double accum = layout.grad_accum;
  const auto links = links_of(cluster, layout);
  const double gemm_s = tokens * stage_flops_per_token(model, point) / layout.tp / rate;
  const double stage_tp_s = tp_s(model, point, links.tp);
  time.compute_s = accum * gemm_s;
  time.tp_s = accum * stage_tp_s;
  time.pp_s = accum * pp_s(model, point, links.pp);
  time.bubble_s = (layout.pp - 1) * (gemm_s + stage_tp_s);
  const double sharded_s = dp_s(model, point, links.shard);
  const double hidden = layout.overlap ? hidden_share * time.compute_s : 0;
  time.dp_s = std::max(0.0, sharded_s - hidden) + replicate_s(model, point, links.replicate);
  time.step_s = time.compute_s + time.bubble_s + time.tp_s + time.pp_s + time.dp_s;
  return time;
}

double tokens_per_s_per_gpu(const TimeEstimate& time, const Point& point) {
  const double tokens = real(point.layout.global_batch()) * point.seq_len;
  return tokens / time.step_s / real(point.layout.world());
}

Prediction predict(const ModelSpec& model, const ClusterSpec& cluster, const Measure& measure,
                   const Point& point) {
  const auto time = estimate_time(model, cluster, point);
  Prediction prediction;
  prediction.memory_bytes =
      estimate_memory(model, point,
                      cluster.gpu.empty() ? shardbench_cpu_memory() : shardbench_cuda_memory())
          .total();
  const double start_s = cluster.gpu.empty() ? cpu_start_s : gpu_start_s;
  prediction.attempt_s = start_s + (measure.warmup + measure.steps) * time.step_s;
  if (!time.nominal) {
    prediction.train_step_s = time.step_s;
    prediction.tokens_per_s_per_gpu = tokens_per_s_per_gpu(time, point);
  }
  return prediction;
}

std::int64_t gpus_held(const ClusterSpec& cluster, const Point& point) {
  return point.nodes > 0 ? std::int64_t{point.nodes} * cluster.gpus_per_node : point.gpus;
}

}  // namespace shardsweep
