// SPDX-License-Identifier: Apache-2.0
// What carries the messages of each group of ranks: links inside a node, or adapters between.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

#include <cstdint>

namespace shardsweep {

/// Latencies of one small message that a collective takes, fitted to the Ultra-Scale
/// Playbook's sweep: inside a node; between nodes, per doubling of the group.
inline constexpr double hops_inside = 5;
inline constexpr double hops_between = 24;

struct Link {
  double bandwidth = 0;  ///< bytes/s per rank that a ring reaches; 0: unknown, taken as free
  double latency_s = 0;  ///< of one small message
  bool crosses = false;  ///< between nodes
};

/// An all-to-all of a group: of what a rank sends, the shares that stay on its node and that
/// leave it, each over its own links at once.
struct Exchange {
  double inside_share = 0;
  double outside_share = 0;
  double inside_bandwidth = 0;   ///< bytes/s per rank; 0: unknown, taken as free
  double outside_bandwidth = 0;  ///< the same, of its own adapter
  double latency_s = 0;          ///< of the whole exchange, without its bytes
  /// Seconds in which each rank sends `bytes`, its own part included.
  [[nodiscard]] double seconds(double bytes) const;
};

struct Links {
  Link tp, pp;
  Link shard;      ///< the ranks that share one copy; all of dp and cp without replicas
  Link replicate;  ///< those that hold the same part of it
  Link cp;         ///< ranks that share a sequence: neighbours among those of dp
  Link experts;    ///< ranks with the same experts, ep apart
  Exchange heads;  ///< of the ranks of cp
  Exchange rows;   ///< of the ranks of ep: neighbours among those of dp * cp
};

/// Ranks of a group of `size` with `stride` between neighbours lie on one node, or a ring of
/// them crosses nodes. Then each node sends through the adapters of its members of the group,
/// as the other groups use the others: bandwidth is inter_node_bandwidth times the members per
/// node, at most inter_node_group_bandwidth and what links inside the node carry.
[[nodiscard]] Links links_of(const ClusterSpec& cluster, const Layout& layout);

}  // namespace shardsweep
