// SPDX-License-Identifier: Apache-2.0
// What to do next, from the world alone: pure, no effect. Decisions become changes of the world
// (new rows, skipped trials); what has to be said to leads and scheduler follows from the rows
// and is said again until it is true (daemon/acts.hpp), so that a crash in between loses
// nothing.
#pragma once

#include "fleet/site_limits.hpp"
#include "fleet/world.hpp"

#include <shardsweep/outside.hpp>
#include <shardsweep/policy.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

class SweepSearch;

struct DecideInput {
  std::map<SweepId, SweepFacts> sweeps;
  /// Searches of sweeps whose order or end depends on measurements. They hear changes that are not
  /// committed yet.
  std::map<SweepId, SweepSearch*> searches{};
  /// Attempts of theirs that an allocation holds at once: one runs, one waits so that no GPU
  /// does.
  std::int64_t most_open_in_search = 2;
  /// The next decision follows what happens. If not (`tick` of cron), lanes hold all that they can.
  bool stays = false;
  Timestamp now = 0;
  std::int32_t week_minute = 0;  ///< local, from Monday 00:00
  std::int32_t week_second = 0;  ///< second of that minute
  /// Unpredictable and unique; gives tokens (8 hex digits) and nonces (32).
  std::function<std::string(int digits)> random_hex;
  std::function<std::string(const std::string& token)> allocation_dir;
  /// Shared with no other database's attempts, whatever was in its place before.
  std::function<std::string(const TrialRow& trial, const AttemptRow& attempt)> attempt_dir;
  /// Points that somebody has asked for, of sweeps that are measured outside.
  std::map<SweepId, HandOut> wanted{};
};

/// Skips what the rules leave out, makes allocations and assigns attempts ahead. True if it
/// has assigned as much as one pass may: the rest is the next one's.
bool decide(World& world, const DecideInput& input);

/// Orders for a lead, as they follow from the world.
struct Orders {
  std::vector<AttemptId> assign;  ///< attempts to assign, in order
  std::vector<AttemptId> revoke;
  std::vector<AttemptId> cancel;
  bool probe = false;                    ///< the short run that this allocation was made for
  std::optional<ControlTime> control{};  ///< runs before `assign`
  bool drain = false;
};
[[nodiscard]] Orders orders_for(
    const World& world, const AllocationRow& allocation, bool controlled = false);

/// Readable, unique, at most 44 characters: the token comes last.
[[nodiscard]] std::string job_name_of(
    const std::string& sweep, std::int32_t nodes, const std::string& token);
/// Wall time to ask for, in seconds, for attempts that are predicted to take `predicted_s` in
/// all and the longest of them `longest_s`: room for that one there is whatever the limits.
[[nodiscard]] double wall_time_s(double predicted_s, double longest_s, const Policy& policy);

/// Wall time for one attempt alone, start included.
[[nodiscard]] double needed_time_s(double work_s, const Policy& policy);
/// Wall time of an attempt that starts up at once: less time can't hold it.
[[nodiscard]] double least_time_s(double work_s, const Policy& policy);

}  // namespace shardsweep
