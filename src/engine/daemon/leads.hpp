// SPDX-License-Identifier: Apache-2.0
// What leads say: their lines are read and folded in, and one that says nothing is noticed.
#pragma once

#include "daemon/channels.hpp"
#include "daemon/patient_records.hpp"
#include "daemon/recent.hpp"
#include "fleet/fold.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

class Leads {
 public:
  Leads(const DaemonParts& parts, World& world, Sweeps& sweeps, Health& health, Channels& channels,
      PatientRecords& records, Recent& recent)
      : parts_(parts),
        world_(world),
        sweeps_(sweeps),
        health_(health),
        channels_(channels),
        records_(records),
        recent_(recent) {}

  /// Reads new lines of a lead.
  void read(const AllocationRow& allocation);
  /// Tells the lead of a sweep that is held apart to end its attempts and leave.
  void send_away(const AllocationRow& allocation);
  /// A lead that wakes up late shall find nothing to do.
  void dismiss(const AllocationRow& allocation, const std::vector<Orphan>& orphans);

 private:
  /// Fate of a line.
  enum class Line : std::uint8_t {
    folded,
    waits,     ///< and so do the lines behind it
    set_aside  ///< waits for the records of its attempt; later lines go on
  };
  [[nodiscard]] Line read_line(const AllocationRow& allocation, const std::string& text);
  void read_set_aside(const AllocationRow& allocation, Channel& channel);
  void judge_programs(const AllocationRow& allocation, const Ended& ended);
  void remove_unused(AttemptId id);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Health& health_;
  Channels& channels_;
  PatientRecords& records_;
  Recent& recent_;
};

}  // namespace shardsweep
