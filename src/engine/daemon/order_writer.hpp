// SPDX-License-Identifier: Apache-2.0
// What the rows say that a lead shall do, written into its to_lead: attempts with their specs,
// controls and short runs, and what is taken back.
#pragma once

#include "daemon/channels.hpp"
#include "daemon/sweeps.hpp"
#include "fleet/control.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace shardsweep {

class OrderWriter {
 public:
  OrderWriter(const DaemonParts& parts, World& world, Sweeps& sweeps, Channels& channels)
      : parts_(parts), world_(world), sweeps_(sweeps), channels_(channels) {}

  /// Writes orders that are not written yet. False if a part is left for the next tick.
  [[nodiscard]] Result<bool> send_orders(const AllocationRow& allocation);

 private:
  /// An attempt at something that is no trial.
  struct Extra {
    AttemptId id = 0;
    std::string name;
    const SweepSpec& sweep;
    Point point;
    std::filesystem::path dir;
    std::string nonce;
  };
  [[nodiscard]] Result<void> assign(const AllocationRow& allocation, AttemptId attempt);
  [[nodiscard]] Result<std::vector<std::string>> secrets_of(
      const SweepRow& sweep, const SweepSpec& spec) const;
  [[nodiscard]] std::string secrets_file_of(
      const SweepRow& sweep, const std::vector<std::string>& secrets) const;
  [[nodiscard]] Result<std::optional<Point>> example_of(SweepId id, const SweepSpec& sweep);
  [[nodiscard]] Result<void> assign_probe(const AllocationRow& allocation);
  [[nodiscard]] Result<void> assign_control(const AllocationRow& allocation, ControlTime time);
  [[nodiscard]] Result<void> assign_extra(const AllocationRow& allocation, const Extra& extra);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Channels& channels_;
};

}  // namespace shardsweep
