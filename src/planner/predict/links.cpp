// SPDX-License-Identifier: Apache-2.0
// Which link a group has follows from the order in which ranks are numbered: a dimension is
// near if the dimensions before it are small. So rank_order changes what a layout costs, and no
// table of cases is needed. A group that leaves its node shares the adapters of all its members
// there, and is never faster than the links inside.
#include "predict/links.hpp"

#include "predict/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace shardsweep {
namespace {

enum class Dimension : std::uint8_t { tp, cp, dp, pp };
constexpr std::size_t dimensions = 4;
using Order = std::array<Dimension, dimensions>;

/// Fastest first.
Order order_of(RankOrder order) {
  using enum Dimension;
  switch (order) {
    case RankOrder::tp_dp_pp:
      return {tp, cp, dp, pp};
    case RankOrder::tp_pp_dp:
      return {tp, pp, cp, dp};
    case RankOrder::dp_tp_pp:
      return {cp, dp, tp, pp};
    case RankOrder::tp_cp_pp_dp:
      return {tp, cp, pp, dp};
    case RankOrder::tp_dp_cp_pp:
      break;
  }
  return {tp, dp, cp, pp};
}

/// `size` ranks, `stride` apart.
struct Row {
  std::int64_t stride = 1;
  std::int64_t size = 1;
};

/// Ranks in rows: each of `outer` begins a row like `inner`.
struct Members {
  Row inner;
  Row outer{};
  [[nodiscard]] std::int64_t size() const { return inner.size * outer.size; }
};

/// Rows that go on where the one before ends are one.
Members joined(Members members) {
  if (members.inner.size == 1) return {members.outer};
  if (members.outer.stride != members.inner.stride * members.inner.size) return members;
  return {{members.inner.stride, members.size()}};
}

std::int64_t on_a_node(const Row& row, std::int64_t gpus) {
  return std::min(row.size, std::max<std::int64_t>(1, gpus / row.stride));
}

std::int64_t on_a_node(const Members& members, std::int64_t gpus) {
  const auto& [inner, outer] = members;
  const bool outer_is_nearer = outer.size > 1 && outer.stride < inner.stride;
  const Row& near = outer_is_nearer ? outer : inner;
  const Row& far = outer_is_nearer ? inner : outer;
  const auto here = on_a_node(near, gpus);
  return here < near.size ? here : here * on_a_node(far, gpus);
}

/// How far ranks lie apart that differ in one dimension alone.
class Strides {
 public:
  explicit Strides(const Layout& layout) : cp_(layout.cp) {
    const std::array<std::int64_t, dimensions> extents{layout.tp, layout.cp, layout.dp, layout.pp};
    std::int64_t stride = 1;
    for (const Dimension dimension : order_of(layout.rank_order)) {
      strides_[static_cast<std::size_t>(dimension)] = stride;
      stride *= extents[static_cast<std::size_t>(dimension)];
    }
  }

  [[nodiscard]] std::int64_t of(Dimension dimension) const {
    return strides_[static_cast<std::size_t>(dimension)];
  }

  /// `size` of the ranks with the same weights, each the `step`-th: those of cp follow each
  /// other.
  [[nodiscard]] Members data(std::int64_t step, std::int64_t size) const {
    const auto cp = of(Dimension::cp);
    const auto dp = of(Dimension::dp);
    if (step >= cp_) return {{dp * (step / cp_), size}};
    const auto row = std::min(size, cp_ / step);
    return joined({{cp * step, row}, {dp, (size + row - 1) / row}});
  }

 private:
  std::array<std::int64_t, dimensions> strides_{};
  std::int64_t cp_;
};

/// Bandwidths that a trainer's collectives reach.
class CollectiveRates {
 public:
  CollectiveRates(const ClusterSpec& cluster, const LinkShares& shares)
      : cluster_(cluster),
        inside_(cluster.intra_node_bandwidth * cluster.intra_node_efficiency * shares.inside),
        adapter_(cluster.inter_node_bandwidth * cluster.inter_node_efficiency * shares.between),
        adapters_(cluster.inter_node_bandwidth * cluster.gpus_per_node * shares.adapters),
        waits_(shares.waits) {}

  [[nodiscard]] double adapter() const { return adapter_; }

  [[nodiscard]] Link link(const Members& group) const {
    const auto members = on_a_node(group, cluster_.gpus_per_node);
    if (members == group.size()) return {inside_, cluster_.intra_node_latency_us * micro, false};
    double bandwidth = adapter_ * static_cast<double>(members);
    if (members > 1) bandwidth = std::min(bandwidth, adapters_);
    if (cluster_.inter_node_group_bandwidth > 0)
      bandwidth = std::min(bandwidth, cluster_.inter_node_group_bandwidth);
    if (inside_ > 0) bandwidth = std::min(bandwidth, inside_);
    return {bandwidth, cluster_.inter_node_latency_us * micro, true};
  }

  [[nodiscard]] Exchange exchange(const Members& group) const {
    const auto members = static_cast<double>(on_a_node(group, cluster_.gpus_per_node));
    const auto all = static_cast<double>(group.size());
    Exchange exchange;
    exchange.nodes = all / members;
    exchange.inside_share = (members - 1) / all;
    exchange.outside_share = (all - members) / all;
    exchange.inside_bandwidth = inside_;
    exchange.outside_bandwidth = adapter_;
    if (group.size() > 1) exchange.latency_s = hops_inside * cluster_.intra_node_latency_us * micro;
    if (exchange.outside_share > 0) {
      exchange.latency_s =
          hops_between * waits_ * std::log2(all) * cluster_.inter_node_latency_us * micro;
    }
    return exchange;
  }

 private:
  const ClusterSpec& cluster_;
  double inside_;
  double adapter_;
  double adapters_;  // adapters of a node
  double waits_;
};

}  // namespace

double Exchange::seconds(double bytes, double copies, bool once_per_node) const {
  const auto moving = [](double amount, double bandwidth) {
    return bandwidth > 0 ? amount / bandwidth : 0;
  };
  double outside = outside_share * copies;
  // Other nodes to which at least one copy goes.
  if (once_per_node)
    outside = std::min(outside, (nodes - 1) * (1 - std::pow(1 - 1 / nodes, copies)));
  return latency_s +
      std::max(moving(inside_share * copies * bytes, inside_bandwidth),
          moving(outside * bytes, outside_bandwidth));
}

Links links_of(const ClusterSpec& cluster, const Layout& layout, const LinkShares& shares) {
  const Strides strides(layout);
  const CollectiveRates reached(cluster, shares);
  const Members tp{{strides.of(Dimension::tp), layout.tp}};
  const Members pp{{strides.of(Dimension::pp), layout.pp}};
  const Members cp{{strides.of(Dimension::cp), layout.cp}};
  // Only neighbours talk between two stages, but some pair of them crosses; each rank has its own
  // adapter for that.
  auto stages = reached.link(pp);
  if (stages.crosses) stages.bandwidth = reached.adapter();
  const std::int64_t shards = layout.shard_ranks();
  // Experts are spread over the ranks of tp too if dp and cp have too few. So they are if fewer
  // ranks split each of them than split the rest; those are neighbours.
  const bool over_tp = layout.ep > layout.data_ranks() || layout.expert_tp > 0;
  const Members experts =
      over_tp ? Members{{layout.expert_shards(), layout.ep}} : strides.data(1, layout.ep);
  const std::int64_t apart = std::int64_t{layout.ep} * layout.expert_shards();
  const Members same_experts = over_tp ? Members{{apart, layout.expert_replicas()}}
                                       : strides.data(layout.ep, layout.expert_replicas());
  return {reached.link(tp), stages, reached.link(strides.data(1, shards)),
      reached.link(strides.data(shards, layout.dp_replicate)), reached.link(cp),
      reached.link(same_experts), reached.link({{1, layout.expert_shards()}}), reached.exchange(cp),
      reached.exchange(experts)};
}

}  // namespace shardsweep
