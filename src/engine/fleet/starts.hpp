// SPDX-License-Identifier: Apache-2.0
// Allocations that end before they have started anything: a site that refuses them refuses the
// next one too, and it would be made at once, for ever.
#pragma once

#include "fleet/fold.hpp"

#include <shardsweep/policy.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

enum class Start : std::uint8_t {
  began,        ///< some attempt has started in it
  unwanted,     ///< released before its start, or the cause of its end is mended: not counted
  failed,       ///< refused, held, ended by the site, never got to its lead, or lost all with it
  failed_node,  ///< a node took it with it, or somebody with a better claim
};

/// Way in which an allocation that is over has started.
[[nodiscard]] Start judge_start(const AllocationRow& allocation, const World& world, Timestamp now);

/// Counts the allocation in its sweep, and pauses the sweep if too many have failed in a row.
/// Returns the reason for the pause, with `log` as the file to look into.
[[nodiscard]] std::optional<std::string> count_start(Fold fold, const Policy& policy,
    const AllocationRow& allocation, const std::string& why, const std::string& log);

/// Pauses a sweep whose programs differ from those at its submission. `change` names both hashes.
/// Returns the reason; empty: the sweep is not active.
[[nodiscard]] std::string stop_for_programs(
    Fold fold, const SweepRow& sweep, const std::string& change);

}  // namespace shardsweep
