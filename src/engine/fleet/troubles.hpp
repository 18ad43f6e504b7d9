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
  /// Begins it, or counts it once more: `since` stays the first time.
  void raise(TroubleKind kind, const std::string& where, const std::string& detail, Timestamp now);
  void clear(TroubleKind kind, const std::string& where);
  /// The storage's state as it is now; none: it works.
  void set_storage(
      const std::string& where, const std::optional<StorageFault>& fault, Timestamp now);
  /// Attempts of a sweep that have ended and can't be read, since when, and why; 0: none.
  void set_unreadable(
      const std::string& sweep, std::int32_t attempts, Timestamp since, const std::string& why);
  /// Replaces the active sweeps, by name, whose files can't be read, and why.
  void set_unloaded(
      const World& world, const std::map<std::string, std::string>& why, Timestamp now);
  /// Of submissions: replaces what the rows said before, and drops refusals of sweeps that do
  /// not wait for a job any more.
  void set_submissions(const World& world);

  [[nodiscard]] const std::vector<Trouble>& all() const { return all_; }
  /// What is worth telling: one look that has failed is not.
  [[nodiscard]] std::vector<Trouble> shown(Timestamp now) const;
  /// Nothing can be stored: what fails now says nothing about trials, jobs or leads.
  [[nodiscard]] bool storage_fails() const;

 private:
  [[nodiscard]] Trouble* find(TroubleKind kind, const std::string& where);
  std::vector<Trouble> all_;
};

/// Submissions of the rows that have no answer or were put off, one trouble per sweep.
[[nodiscard]] std::vector<Trouble> submission_troubles(const World& world);

}  // namespace shardsweep
