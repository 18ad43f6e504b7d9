// SPDX-License-Identifier: Apache-2.0
// The jobs of allocations, from what the scheduler says of them to their end.
#pragma once

#include "daemon/leads.hpp"
#include "daemon/notifying.hpp"
#include "daemon/sites.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/storage.hpp>

#include <chrono>
#include <map>
#include <vector>

namespace shardsweep {

/// Description of an allocation for its scheduler.
[[nodiscard]] AllocationHandle handle_of(const AllocationRow& row, Timestamp now);

class Jobs {
 public:
  Jobs(const DaemonParts& parts, World& world, Sweeps& sweeps, Health& health, Channels& channels,
      PatientRecords& records, Leads& leads, Sites& sites, Notifying& notifying)
      : parts_(parts),
        world_(world),
        sweeps_(sweeps),
        health_(health),
        channels_(channels),
        records_(records),
        leads_(leads),
        sites_(sites),
        notifying_(notifying),
        home_is_shared_(!is_local_file_system(parts.home.database)) {}

  /// Allocations to look for, by scheduler.
  [[nodiscard]] Sites::Handles to_look_for();
  void take(const SchedulerEvent& event);
  void end_deferrals();
  void dismiss_unsubmitted();
  /// Ends the allocations whose jobs are over and whose files have been read.
  void close_gone();
  /// Lets go of a copied database's allocations: those in the original's home count as ended. Their
  /// files are not read, and their jobs are not touched.
  void forget_others();
  /// Folders of allocations that have not ended.
  [[nodiscard]] std::vector<std::filesystem::path> live_folders() const;
  /// Packs the folders of attempts whose lead would have done it. After the commit of their
  /// ends: a lead that lives on may still write a result, which counts until then.
  void pack_closed();

 private:
  struct ToPack {
    AttemptPaths paths;
    std::int64_t keep_log_bytes = 0;
  };
  [[nodiscard]] SweepId sweep_in(const SchedulerEvent& event) const;
  [[nodiscard]] bool last_words_may_come(const AllocationRow& allocation);
  [[nodiscard]] bool waits_for_its_files(const AllocationRow& allocation);
  [[nodiscard]] bool submitted_again(const AllocationRow& allocation);
  void close(AllocationId allocation);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Health& health_;
  Channels& channels_;
  PatientRecords& records_;
  Leads& leads_;
  Sites& sites_;
  Notifying& notifying_;
  bool home_is_shared_;  ///< other hosts share the home over a network
  std::vector<ToPack> to_pack_;
  /// Allocations that are over, and whose files can't be read since then.
  std::map<AllocationId, std::chrono::steady_clock::time_point> unreadable_;
};

}  // namespace shardsweep
