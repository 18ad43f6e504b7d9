// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups.hpp"

#include <cstddef>
#include <numeric>
#include <utility>

namespace shardbench {
namespace {

// The first member distinguishes groups of one kind.
constexpr u64 kinds = 8;

}  // namespace

std::vector<i64> members_of(const Layout& layout, i64 rank, std::string_view name) {
  const Coordinates at = coordinates_of(layout, rank);
  if (name == "tp") return group_along(layout, at, Axis::tp);
  if (name == "pp") return group_along(layout, at, Axis::pp);
  std::vector<i64> members;
  if (name == "world") {
    members.resize(static_cast<std::size_t>(layout.world()));
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
  // Unspread experts: ranks with the same experts are the dp group.
  if (name == "edp" && layout.ep == 1) return {rank};
  const std::vector<i64> dp = data_group(layout, at);
  const i64 n = layout.shard_ranks();
  const i64 own = data_index(layout, at);
  for (i64 i = 0; i < layout.data_ranks(); ++i) {
    const bool together = name == "dp" || (name == "cp" && i / layout.cp == at.dp) ||
        (name == "ep" && i / layout.ep == own / layout.ep) ||
        (name == "edp" && i % layout.ep == own % layout.ep) ||
        (name == "shard" && i / n == own / n) || (name == "replicate" && i % n == own % n);
    if (together) members.push_back(dp[static_cast<std::size_t>(i)]);
  }
  return members;
}

u64 group_ids_used(const Layout& layout) {
  return kinds * static_cast<u64>(layout.world());
}

Groups make_groups(const Layout& layout, i64 rank, u64 first_id, const GroupMaker& make) {
  u64 kind = 0;
  const auto one = [&](const char* name) {
    std::vector<i64> members = members_of(layout, rank, name);
    const u64 id =
        first_id + kind++ * static_cast<u64>(layout.world()) + static_cast<u64>(members.front());
    return make({name, id, std::move(members)});
  };
  Groups groups;
  groups.tp = one("tp");
  groups.dp = one("dp");
  groups.pp = one("pp");
  groups.cp = one("cp");
  groups.shard = one("shard");
  groups.replicate = one("replicate");
  groups.ep = one("ep");
  groups.edp = one("edp");
  return groups;
}

}  // namespace shardbench
