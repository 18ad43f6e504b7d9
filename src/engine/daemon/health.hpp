// SPDX-License-Identifier: Apache-2.0
// What keeps the daemon from its work, told where commands read it: in a file that can be
// written when nothing else can.
#pragma once

#include "daemon/parts.hpp"
#include "fleet/troubles.hpp"

#include <shardsweep/storage.hpp>

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

class Health {
 public:
  Health(const DaemonParts& parts, World& world) : parts_(parts), world_(world) {}

  /// A scheduler answers, or does not.
  void note_event(const std::string& key, const SchedulerEvent& event);
  /// A file could not be written or read: the storage is looked at.
  void doubt_storage() { storage_doubted_ = true; }
  /// How many attempts of a sweep have ended and can't be read, since when, and why; 0: none.
  void note_unreadable(
      const std::string& sweep, std::int32_t attempts, Timestamp since, const std::string& why) {
    troubles_.set_unreadable(sweep, attempts, since, why);
  }
  /// Replaces the sweeps, by name, that have trouble of this kind, and why.
  void note_sweeps(TroubleKind kind, const std::map<std::string, std::string>& why) {
    troubles_.set_of_sweeps(kind, world_, why, parts_.clock.now());
  }
  /// True if storage fails now, or failed a moment ago: other failures then are its fault.
  [[nodiscard]] bool storage_fails() const;
  /// How a pass ended, and whether answers to requests can't be written. The pass's own result,
  /// or `rejected` if the database's folder is gone.
  [[nodiscard]] Result<void> note_pass(Result<void> pass, bool unsent);

 private:
  using Steady = std::chrono::steady_clock::time_point;
  void look_at_home(bool failed);
  [[nodiscard]] std::optional<StorageFault> look_at_lock();
  void tell_troubles();

  const DaemonParts& parts_;
  World& world_;
  Troubles troubles_;
  std::vector<Trouble> told_;  ///< troubles in the file
  std::optional<TroubleFile> file_;
  Steady written_at_;
  std::optional<Steady> storage_looked_at_;
  std::optional<Steady> storage_failed_at_;
  std::optional<Steady> folder_gone_since_;
  bool storage_doubted_ = false;
  dev_t device_ = 0;  ///< device of the lock when it was first seen; 0: not yet
};

}  // namespace shardsweep
