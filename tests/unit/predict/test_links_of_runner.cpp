// SPDX-License-Identifier: Apache-2.0
// Which members of a group share a node: the planner's strides against the runner's groups.
#include "parallel/groups.hpp"
#include "predict/links.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

shardbench::Layout runner_layout(const Layout& layout) {
  shardbench::Layout same;
  same.dp = layout.dp;
  same.tp = layout.tp;
  same.pp = layout.pp;
  same.cp = layout.cp;
  same.ep = layout.ep;
  same.dp_replicate = layout.dp_replicate;
  const auto word = rank_order_words[static_cast<std::size_t>(layout.rank_order)];
  same.rank_order = shardbench::rank_order_of(word).value();
  return same;
}

/// Of the first rank's group: how many members it has, and how many of them are on its node.
struct Count {
  std::int64_t all = 0;
  std::int64_t here = 0;
};

Count count(const Layout& layout, std::string_view name, std::int64_t gpus_per_node) {
  const auto members = shardbench::members_of(runner_layout(layout), 0, name);
  return {static_cast<std::int64_t>(members.size()),
      std::count_if(
          members.begin(), members.end(), [&](std::int64_t rank) { return rank < gpus_per_node; })};
}

void check_link(const Link& link, const Count& group, const ClusterSpec& cluster) {
  CHECK(link.crosses == (group.here < group.all));
  if (!link.crosses) return;
  const double adapters = cluster.inter_node_bandwidth * cluster.inter_node_efficiency *
      static_cast<double>(group.here);
  CHECK(link.bandwidth == doctest::Approx(adapters));
}

void check_exchange(const Exchange& exchange, const Count& group) {
  const auto all = static_cast<double>(group.all);
  CHECK(exchange.inside_share == doctest::Approx(static_cast<double>(group.here - 1) / all));
  CHECK(
      exchange.outside_share == doctest::Approx(static_cast<double>(group.all - group.here) / all));
}

void check_links(const ClusterSpec& cluster, const Layout& layout) {
  CAPTURE(rank_order_words[static_cast<std::size_t>(layout.rank_order)]);
  CAPTURE(layout.dp);
  CAPTURE(layout.tp);
  CAPTURE(layout.pp);
  CAPTURE(layout.cp);
  CAPTURE(layout.ep);
  CAPTURE(layout.dp_replicate);
  const Links links = links_of(cluster, layout);
  const auto group = [&](std::string_view name) {
    return count(layout, name, cluster.gpus_per_node);
  };
  check_link(links.tp, group("tp"), cluster);
  CHECK(links.pp.crosses == (group("pp").here < group("pp").all));
  check_link(links.shard, group("shard"), cluster);
  check_link(links.replicate, group("replicate"), cluster);
  check_link(links.cp, group("cp"), cluster);
  if (layout.ep > 1) check_link(links.experts, group("edp"), cluster);
  check_exchange(links.heads, group("cp"));
  check_exchange(links.rows, group("ep"));
}

}  // namespace

TEST_CASE("the links of a group are those between the runner's ranks") {
  ClusterSpec cluster = h100();
  // Nothing but the adapters limits a ring between nodes.
  cluster.inter_node_group_bandwidth = 0;
  cluster.intra_node_bandwidth = 1e15;
  const std::vector<std::int32_t> degrees{1, 2, 4, 8};
  int layouts = 0;
  for (std::size_t order = 0; order < rank_order_words.size(); ++order)
    for (const auto tp : degrees)
      for (const auto pp : degrees)
        for (const auto cp : degrees)
          for (const auto dp : degrees)
            for (const auto part : degrees) {
              Layout layout;
              layout.rank_order = static_cast<RankOrder>(order);
              layout.tp = tp;
              layout.pp = pp;
              layout.cp = cp;
              layout.dp = dp;
              if (dp * cp % part == 0) layout.ep = part;
              if (dp % part == 0) layout.dp_replicate = part;
              check_links(cluster, layout);
              ++layouts;
            }
  CHECK(layouts == 5 * 4 * 4 * 4 * 4 * 4);
}
