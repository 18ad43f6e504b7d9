// SPDX-License-Identifier: Apache-2.0
#include "predict/links.hpp"

#include "predict/units.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

Link link_of(const ClusterSpec& cluster, std::int64_t stride, std::int64_t size) {
  const double inside = cluster.intra_node_bandwidth * cluster.intra_node_efficiency;
  if (stride * size <= cluster.gpus_per_node)
    return {inside, cluster.intra_node_latency_us * micro, false};
  const auto members = std::max<std::int64_t>(1, cluster.gpus_per_node / stride);
  double bandwidth = cluster.inter_node_bandwidth * cluster.inter_node_efficiency *
                     static_cast<double>(members);
  if (cluster.inter_node_group_bandwidth > 0)
    bandwidth = std::min(bandwidth, cluster.inter_node_group_bandwidth);
  if (inside > 0) bandwidth = std::min(bandwidth, inside);
  return {bandwidth, cluster.inter_node_latency_us * micro, true};
}

Exchange exchange_of(const ClusterSpec& cluster, std::int64_t stride, std::int64_t size) {
  const auto per_node = std::max<std::int64_t>(1, cluster.gpus_per_node / stride);
  const auto members = static_cast<double>(std::min(size, per_node));
  const auto all = static_cast<double>(size);
  Exchange exchange;
  exchange.inside_share = (members - 1) / all;
  exchange.outside_share = (all - members) / all;
  exchange.inside_bandwidth = cluster.intra_node_bandwidth * cluster.intra_node_efficiency;
  exchange.outside_bandwidth = cluster.inter_node_bandwidth * cluster.inter_node_efficiency;
  if (size > 1) exchange.latency_s = hops_inside * cluster.intra_node_latency_us * micro;
  if (exchange.outside_share > 0) {
    exchange.latency_s = hops_between * std::log2(all) * cluster.inter_node_latency_us * micro;
  }
  return exchange;
}

}  // namespace

double Exchange::seconds(double bytes) const {
  const auto moving = [](double amount, double bandwidth) {
    return bandwidth > 0 ? amount / bandwidth : 0;
  };
  return latency_s + std::max(moving(inside_share * bytes, inside_bandwidth),
                              moving(outside_share * bytes, outside_bandwidth));
}

Links links_of(const ClusterSpec& cluster, const Layout& layout) {
  const std::int64_t tp = layout.tp;
  const std::int64_t dp = layout.data_ranks();
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
  // Between two stages only the neighbours talk, but some pair of them crosses; each rank has
  // its own adapter for that.
  const std::int64_t shards = layout.shard_ranks();
  auto stages = link_of(cluster, pp_stride, pp);
  if (stages.crosses)
    stages.bandwidth = cluster.inter_node_bandwidth * cluster.inter_node_efficiency;
  return {link_of(cluster, tp_stride, tp),
          stages,
          link_of(cluster, dp_stride, shards),
          link_of(cluster, dp_stride * shards, layout.dp_replicate),
          link_of(cluster, dp_stride, layout.cp),
          link_of(cluster, dp_stride * layout.ep, layout.expert_replicas()),
          exchange_of(cluster, dp_stride, layout.cp),
          exchange_of(cluster, dp_stride, layout.ep)};
}

}  // namespace shardsweep
