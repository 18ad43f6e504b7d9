// SPDX-License-Identifier: Apache-2.0
// The records of attempts: read with patience, and held against what is known.
#pragma once

#include "daemon/health.hpp"
#include "daemon/sweeps.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/records.hpp>

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace shardsweep {

class PatientRecords {
 public:
  PatientRecords(const DaemonParts& parts, World& world, Sweeps& sweeps, Health& health)
      : parts_(parts), world_(world), sweeps_(sweeps), health_(health) {}

  /// Empty: records are there and can't be read yet. The daemon retries for as long as the sweep's
  /// policy says, and `status` shows it. Records that a lead has `packed` exist, whether this host
  /// sees them yet or not.
  [[nodiscard]] std::optional<RecordsSummary> read(
      const AttemptPaths& paths, const std::string& nonce, bool packed, SweepId sweep);
  /// Marks a result that can't be true, or is of another version than its trial. One that can't
  /// be judged is believed.
  void judge(const AttemptRow& attempt, RecordsSummary& records);

 private:
  using Steady = std::chrono::steady_clock::time_point;
  /// An attempt whose records can't be read, though they are there.
  struct Unreadable {
    Steady since;
    Steady again;
    std::chrono::milliseconds pause;
    SweepId sweep = 0;
    Timestamp told_since = 0;  ///< wall-clock time
    std::string why{};         ///< why reading failed
    std::string given_up{};    ///< why reading was given up; empty: it is still tried
  };
  void tell(SweepId sweep);
  [[nodiscard]] Result<std::string> doubt_of(
      const AttemptRow& attempt, const AddMeasurement& result);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  Health& health_;
  std::map<std::string, Unreadable> unreadable_;  ///< unreadable records by nonce
};

}  // namespace shardsweep
