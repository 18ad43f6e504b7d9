// SPDX-License-Identifier: Apache-2.0
// Acting: makes true what the committed rows say. Each act is found out anew from rows and
// files, so that a crash between commit and act, or between two acts, costs nothing.
#pragma once

#include "daemon/health.hpp"
#include "daemon/leads.hpp"
#include "daemon/order_writer.hpp"
#include "daemon/sites.hpp"

#include <cstdint>
#include <optional>

namespace shardsweep {

class Acts {
 public:
  Acts(const DaemonParts& parts, World& world, Sweeps& sweeps, Health& health, Channels& channels,
      Sites& sites, Leads& leads)
      : parts_(parts),
        world_(world),
        sweeps_(sweeps),
        health_(health),
        channels_(channels),
        sites_(sites),
        leads_(leads),
        orders_(parts, world, sweeps, channels) {}

  void act();
  /// True if the leads have all orders of the present world.
  [[nodiscard]] bool all_said() const { return said_ == world_.version(); }

 private:
  [[nodiscard]] bool is_said(const AllocationRow& allocation) const;
  [[nodiscard]] bool say_orders(const AllocationRow& allocation);
  void act_on(const AllocationRow& allocation);
  void submit(const AllocationRow& allocation, Scheduler& scheduler);
  void release(const AllocationRow& allocation, Channel& channel, Scheduler& scheduler);
  [[nodiscard]] Result<void> prepare(const AllocationRow& allocation);
  [[nodiscard]] Result<void> write_script(const AllocationRow& allocation);
  [[nodiscard]] std::optional<CheckOrder> check_order(const AllocationRow& allocation);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Health& health_;
  Channels& channels_;
  Sites& sites_;
  Leads& leads_;
  OrderWriter orders_;
  std::uint64_t said_ = 0;     ///< version of the world; 0: not all of its orders
  AllocationId acted_on_ = 0;  ///< the last one: the next pass begins after it
};

}  // namespace shardsweep
