// SPDX-License-Identifier: Apache-2.0
// The two files between daemon and lead, one pair for each allocation: what has been said, and
// what is still to be read.
#pragma once

#include "daemon/parts.hpp"
#include "fleet/control.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/rows.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsweep {

/// The two files between daemon and lead; what was said is read back from to_lead after a restart.
struct Channel {
  explicit Channel(const AllocationPaths& paths)
      : to_lead(paths.to_lead()), reader(paths.from_lead()) {}
  std::filesystem::path to_lead;
  LineReader reader;
  std::deque<std::string> unread;  ///< lines of from_lead that are not folded yet
  bool is_readable = true;         ///< the last look could read from_lead
  /// Lines that wait: ends of attempts whose records can't be read yet. They hold up no other line.
  std::vector<std::string> set_aside;
  std::int64_t n = 0;
  std::set<AttemptId> assigned;
  std::set<AttemptId> revoked;
  std::set<AttemptId> cancelled;
  bool drained = false;
  /// World::version_of() when all orders had been said; 0: not all of them.
  std::uint64_t said = 0;
  bool submitted = false;  ///< submitted by this process
  std::optional<std::chrono::steady_clock::time_point> released_at;
  std::optional<std::chrono::steady_clock::time_point> job_ended_at;
};

class Channels {
 public:
  /// Sets the epoch of this daemon, which stands in every line.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }
  /// Opened with the first call; a fault while its files can't be read.
  [[nodiscard]] Result<Channel*> of(const AllocationRow& allocation);
  /// Channel of an allocation whose channel is open.
  [[nodiscard]] Channel& at(AllocationId id) { return channels_.at(id); }
  /// Null: not open.
  [[nodiscard]] const Channel* find(AllocationId id) const;
  [[nodiscard]] Result<void> send(Channel& channel, ToLeadBody body) const;
  void forget(const std::vector<AllocationId>& ended);

 private:
  std::int64_t epoch_ = 0;
  std::map<AllocationId, Channel> channels_;
};

// Where the attempts of controls lie.

[[nodiscard]] inline AttemptPaths control_paths(
    const Home& home, const AllocationRow& allocation, ControlTime time) {
  return {home.attempts() / fmt::format("control.{}.{}", allocation.token, word_of(time))};
}

[[nodiscard]] inline std::string control_nonce(const AllocationRow& allocation, ControlTime time) {
  return fmt::format("{}-control-{}", allocation.token, word_of(time));
}

}  // namespace shardsweep
