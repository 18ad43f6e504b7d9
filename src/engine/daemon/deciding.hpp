// SPDX-License-Identifier: Apache-2.0
// When there is something to decide, and over what: the world, what sites have told, the hours.
#pragma once

#include "daemon/more_runs.hpp"
#include "daemon/sites.hpp"
#include "fleet/decide.hpp"

#include <cstdint>
#include <map>

namespace shardsweep {

class Deciding {
 public:
  Deciding(const DaemonParts& parts, World& world, Sweeps& sweeps, Sites& sites)
      : parts_(parts),
        world_(world),
        sweeps_(sweeps),
        sites_(sites),
        more_runs_(parts, world, sweeps) {}

  /// Decides again if something is new. The same world always gives the same decision.
  void decide();
  /// Decides for this sweep alone: points for somebody who measures them outside.
  void hand_out(SweepId sweep, const HandOut& wanted);
  /// Rows were read anew.
  void look_at_all() { more_runs_.look_at_all(); }
  /// True if nothing changed since the last decision.
  [[nodiscard]] bool all_decided() const { return decided_ == over_now(); }

 private:
  /// Versions that the last decision covered; 0: it stopped half-way.
  struct Over {
    std::uint64_t world = 0;
    std::uint64_t sites = 0;
    std::uint64_t hours = 0;
    friend bool operator==(const Over&, const Over&) = default;
  };
  [[nodiscard]] Over over_now() const { return {world_.version(), sites_.version(), hours_}; }
  [[nodiscard]] bool has_stale_budget() const;
  void take_time();
  [[nodiscard]] DecideInput input();

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Sites& sites_;
  MoreRuns more_runs_;
  Over decided_;
  std::map<SweepId, bool> open_;  ///< sweeps that limits.hours left open at the last decision
  std::uint64_t hours_ = 1;       ///< grows where hours begin or end
  std::int32_t week_minute_ = 0;  ///< local, from Monday 00:00
  std::int32_t week_second_ = 0;
};

}  // namespace shardsweep
