// SPDX-License-Identifier: Apache-2.0
// What carries the messages of each group of ranks: links inside a node, or adapters between.
#pragma once

#include "trainer/habits.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

namespace shardsweep {

/// Latencies of one small message that NCCL's collectives take: inside a node; between nodes,
/// per doubling of the group.
inline constexpr double hops_inside = 5;
inline constexpr double hops_between = 2;

struct Link {
  double bandwidth = 0;  ///< bytes/s per rank that a ring reaches; 0: unknown, taken as free
  double latency_s = 0;  ///< latency of one small message
  bool crosses = false;  ///< true: between nodes
};

/// An all-to-all of a group: of what a rank sends, the shares that stay on its node and that
/// leave it, each over its own links at once.
struct Exchange {
  double inside_share = 0;
  double outside_share = 0;
  double inside_bandwidth = 0;   ///< bytes/s per rank; 0: unknown, taken as free
  double outside_bandwidth = 0;  ///< bytes/s of its own adapter per rank; 0: unknown, taken as free
  double latency_s = 0;          ///< latency of the whole exchange, without its bytes
  double nodes = 1;              ///< nodes of the group
  /// Seconds in which each rank sends `copies` of `bytes`, each to a rank of its own choice,
  /// the own one included. `once_per_node`: a node gets one of its copies and hands it on by
  /// its own links.
  [[nodiscard]] double seconds(double bytes, double copies = 1, bool once_per_node = false) const;
};

struct Links {
  Link tp, pp;
  Link shard;      ///< the ranks that share one copy; all of dp and cp without replicas
  Link replicate;  ///< ranks that hold the same part of it
  Link cp;         ///< ranks that share a sequence: neighbours among those of dp
  Link experts;    ///< ranks with the same experts, ep apart
  Link expert_tp;  ///< ranks that split each expert: neighbours
  Exchange heads;  ///< exchange between the ranks of cp
  Exchange rows;   ///< exchange between the ranks of ep: neighbours among those of dp * cp
};

/// Ranks of a group of `size` with `stride` between neighbours lie on one node, or a ring of
/// them crosses nodes. Then each node sends through the adapters of its members of the group,
/// as the other groups use the others: bandwidth is inter_node_bandwidth times the members per
/// node, at most inter_node_group_bandwidth and what links inside the node carry; all of them
/// by the trainer's shares.
[[nodiscard]] Links links_of(
    const ClusterSpec& cluster, const Layout& layout, const LinkShares& shares = {});

}  // namespace shardsweep
