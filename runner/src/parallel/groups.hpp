// SPDX-License-Identifier: Apache-2.0
// The communicators of one rank: the groups that its layout cuts out of the world.
#pragma once

#include "communication/communicator.hpp"
#include "parallel/layout.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

namespace shardbench {

struct Groups {
  std::unique_ptr<Communicator> tp;
  std::unique_ptr<Communicator> dp;         // ranks with the same weights: of dp and cp
  std::unique_ptr<Communicator> shard;      // dp ranks that share one copy under ZeRO
  std::unique_ptr<Communicator> replicate;  // dp ranks with the same part of different copies
  std::unique_ptr<Communicator> pp;
  std::unique_ptr<Communicator> cp;   // ranks that share samples
  std::unique_ptr<Communicator> ep;   // ranks of dp and cp that share a layer's experts
  std::unique_ptr<Communicator> edp;  // ranks of dp and cp with the same experts, ep > 1
};

/// The order of every array by group.
inline constexpr std::array group_names{"tp", "dp", "pp", "shard", "replicate", "cp", "ep", "edp"};
inline constexpr std::size_t group_kind_count = group_names.size();

/// Ranks of the group of that name, one of group_names or "world", that `rank` belongs to.
std::vector<i64> members_of(const Layout& layout, i64 rank, std::string_view name);

/// Makes the communicator of one group; the seam between layouts and transports.
using GroupMaker = std::function<std::unique_ptr<Communicator>(Group)>;

/// `first_id`: groups get the ids from here on; different for groups that live on one mesh
/// after each other.
Groups make_groups(const Layout& layout, i64 rank, u64 first_id, const GroupMaker& make);
/// Ids that one call of make_groups uses up at most.
u64 group_ids_used(const Layout& layout);

}  // namespace shardbench
