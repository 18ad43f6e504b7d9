// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.hpp"
#include "fleet/alive.hpp"

#include <algorithm>

namespace shardsweep {

/// Jobs wait for hours, looks at them are far apart, and lanes have work ahead: the more of
/// what is alive is in other hands, the less a tick finds; and the more lanes, the more it
/// costs.
std::chrono::milliseconds Daemon::pause() const {
  // Fewer idle ticks than what renew_lease() takes for a gap; and a lead that has come up, or
  // has nothing more to do, finds work before it gives its nodes back.
  double longest = 2.5 * parts_.policy.idle_tick_s;
  double shortest = parts_.policy.tick_s;
  for (const auto& [id, context] : sweeps_.all()) {
    longest = std::min(longest, 0.5 * context.spec.policy.lane.idle_limit_s);
    shortest = std::min(shortest, context.spec.policy.tick_s);
  }
  constexpr double quick_lanes = 8;  // number of lanes that are looked at in every tick
  const bool settled =
      !desk_.serving() && deciding_.all_decided() && acts_.all_said() && !settling();
  constexpr std::chrono::milliseconds between_pieces{1};  // requests are looked for anyway
  if (desk_.in_pieces()) return between_pieces;
  const bool waits = settled && only_waits(world_, parts_.clock.now());
  double seconds = parts_.policy.idle_tick_s;
  if (busy() && !waits) {
    seconds = shortest;
    const auto lanes = static_cast<double>(live_in_jobs(world_));
    if (settled)
      seconds = std::clamp(seconds * lanes / quick_lanes, seconds, std::max(seconds, longest));
  } else if (waits) {
    seconds = longest;
  }
  return std::chrono::milliseconds(std::max<std::int64_t>(1, std::int64_t(seconds * 1000)));
}

}  // namespace shardsweep
