// SPDX-License-Identifier: Apache-2.0
#include "predict/rates.hpp"

#include <algorithm>

namespace shardsweep {
namespace {

/// Of one kind of hardware, how its rates relate.
struct Proportions {
  double flops_per_byte;     ///< FLOP per byte of memory traffic
  double memory_per_inside;  ///< memory traffic per byte over a link inside a node
  double memory_per_between;
  double inside_latency_us;
  double between_latency_us;
};

// Data sheets of A100, H100 and H200 with the shares that collectives reach.
constexpr Proportions of_gpus{150, 14, 120, 5, 10};
// Processes on a CPU send through sockets.
constexpr Proportions of_processes{1, 4, 8, 20, 50};

double reached_flops(const ClusterSpec& cluster) {
  double best = 0;
  for (const auto dtype : {Dtype::bf16, Dtype::fp32, Dtype::fp64})
    best = std::max(best, cluster.peak(dtype).value_or(0));
  return best > 0 ? best * cluster.gemm_efficiency : nominal_flops;
}

/// `efficiency` is the share of `bandwidth` that collectives reach.
void fill_link(
    double reached, double latency_us, double efficiency, double& bandwidth, double& latency) {
  if (bandwidth > 0) return;
  bandwidth = efficiency > 0 ? reached / efficiency : reached;
  if (latency <= 0) latency = latency_us;
}

}  // namespace

UnknownRates unknown_rates(const ClusterSpec& cluster, Dtype dtype) {
  return {.compute = !cluster.peak(dtype),
      .memory = cluster.memory_bandwidth <= 0,
      .inside = cluster.intra_node_bandwidth <= 0,
      .between = cluster.inter_node_bandwidth <= 0};
}

ClusterSpec with_nominal_rates(ClusterSpec cluster) {
  const auto& kind = cluster.gpu.empty() ? of_processes : of_gpus;
  if (cluster.memory_bandwidth <= 0)
    cluster.memory_bandwidth = reached_flops(cluster) / kind.flops_per_byte;
  const double memory = cluster.memory_bandwidth;
  fill_link(memory / kind.memory_per_inside, kind.inside_latency_us, cluster.intra_node_efficiency,
      cluster.intra_node_bandwidth, cluster.intra_node_latency_us);
  fill_link(memory / kind.memory_per_between, kind.between_latency_us,
      cluster.inter_node_efficiency, cluster.inter_node_bandwidth, cluster.inter_node_latency_us);
  return cluster;
}

}  // namespace shardsweep
