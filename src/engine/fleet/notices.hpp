// SPDX-License-Identifier: Apache-2.0
// What is worth telling somebody who does not watch. Pure: the same changes and the same clock
// give the same notices.
#pragma once

#include "fleet/world.hpp"

#include <shardsweep/notifier.hpp>
#include <shardsweep/policy.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsweep {

class Watcher {
 public:
  /// Changes that have just been committed.
  void see(const World& world, const std::vector<Change>& committed, Timestamp now);
  /// A scheduler could not be looked at, or has answered.
  void look_failed(const std::string& why, Timestamp now);
  void look_succeeded(Timestamp now);
  /// Notices that are due now; each fact is told once until it is over.
  [[nodiscard]] std::vector<Notice> take(const World& world, const Policy& policy, Timestamp now);

 private:
  void see_ends(const World& world, Timestamp now);
  void see_stalls(const World& world, const Policy& policy, Timestamp now);
  void see_blindness(const Policy& policy, Timestamp now);

  std::vector<Notice> notices_;
  std::set<SweepId> open_;   ///< sweeps with trials to run
  std::set<SweepId> again_;  ///< sweeps in `open_` that are measured again: their end is no news
  std::map<SweepId, Timestamp> progress_;
  std::set<SweepId> stalled_;  ///< told
  std::optional<Timestamp> blind_since_;
  std::string blind_why_;
  bool blind_told_ = false;
};

}  // namespace shardsweep
