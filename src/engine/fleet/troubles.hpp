// SPDX-License-Identifier: Apache-2.0
// The daemon's list of troubles. Pure.
#pragma once

#include "fleet/world.hpp"

#include <shardsweep/storage.hpp>
#include <shardsweep/trouble.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

[[nodiscard]] TroubleKind trouble_of(StorageProblem problem);
[[nodiscard]] bool is_storage(TroubleKind kind);

class Troubles {
 public:
  /// Begins a trouble, or counts it once more: `since` stays the first time.
  void raise(TroubleKind kind, const std::string& where, const std::string& detail, Timestamp now);
  void clear(TroubleKind kind, const std::string& where);
  /// Sets the state of the storage; none: it works.
  void set_storage(
      const std::string& where, const std::optional<StorageFault>& fault, Timestamp now);
  /// Number of the sweep's ended attempts whose records can't be read, since when, and why; 0:
  /// none.
  void set_unreadable(
      const std::string& sweep, std::int32_t attempts, Timestamp since, const std::string& why);
  /// Replaces the active sweeps, by name, that have trouble of this kind, and why.
  void set_of_sweeps(TroubleKind kind, const World& world,
      const std::map<std::string, std::string>& why, Timestamp now);
  /// Replaces the troubles of submissions by those in the rows, and drops refusals of sweeps that
  /// no longer wait for a job.
  void set_submissions(const World& world);

  [[nodiscard]] const std::vector<Trouble>& all() const { return all_; }
  /// Troubles worth showing: a single failed look is not.
  [[nodiscard]] std::vector<Trouble> shown(Timestamp now) const;
  /// True if the storage fails: failures of trials, jobs or leads then tell nothing about them.
  [[nodiscard]] bool storage_fails() const;

 private:
  [[nodiscard]] Trouble* find(TroubleKind kind, const std::string& where);
  std::vector<Trouble> all_;
};

/// Submissions of the rows that have no answer or were put off, one trouble per sweep.
[[nodiscard]] std::vector<Trouble> submission_troubles(const World& world);

}  // namespace shardsweep
