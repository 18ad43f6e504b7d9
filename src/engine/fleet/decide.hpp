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
  /// Most attempts of such a sweep that an allocation holds at once: one runs, and one waits so
  /// that the GPUs don't.
  std::int64_t most_open_in_search = 2;
  /// True if this process stays and decides again as things happen. A single pass (`tick` of cron)
  /// fills lanes with all that they can hold.
  bool stays = false;
  Timestamp now = 0;
  std::int32_t week_minute = 0;  ///< local, from Monday 00:00
  std::int32_t week_second = 0;  ///< second of that minute
  /// Unpredictable and unique; gives tokens (8 hex digits) and nonces (32).
  std::function<std::string(int digits)> random_hex;
  std::function<std::string(const std::string& token)> allocation_dir;
  /// Folder of an attempt. No attempt of another database shares it, even if that database was in
  /// the same place before.
  std::function<std::string(const TrialRow& trial, const AttemptRow& attempt)> attempt_dir;
  /// Points that somebody has asked for, of sweeps that are measured outside.
  std::map<SweepId, HandOut> wanted{};
};

/// Skips what the rules leave out, makes allocations and assigns attempts ahead. True if it has
/// assigned as much as one pass may, so that another pass has to follow.
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
/// Wall time to ask for, in seconds, for attempts that are predicted to take `predicted_s`
/// together. The longest one, `longest_s`, always has room, whatever the policy's limits.
[[nodiscard]] double wall_time_s(double predicted_s, double longest_s, const Policy& policy);

/// Wall time for one attempt alone, start included.
[[nodiscard]] double needed_time_s(double work_s, const Policy& policy);
/// Least wall time that can hold one attempt, if it starts up at once.
[[nodiscard]] double least_time_s(double work_s, const Policy& policy);

}  // namespace shardsweep
