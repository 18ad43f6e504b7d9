// SPDX-License-Identifier: Apache-2.0
// Every interval and limit, each with its unit and its reason, in one struct. Each can be set
// in a sweep file under the section and key that policy_fields() names.
#pragma once

#include <shardsweep/described.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsweep {

// Hours in which a sweep may run: windows of a week, in the local time of the login node.

struct OpeningWindow {
  std::uint8_t days = 0x7f;   ///< days on which it opens: bit 0 is Monday
  std::int32_t from_min = 0;  ///< minutes since midnight
  std::int32_t to_min = 0;    ///< end in minutes, at most 1440; not after `from_min`: of the next
                              ///< day
  friend bool operator==(const OpeningWindow&, const OpeningWindow&) = default;
};

/// No windows: always open.
struct OpeningHours {
  std::vector<OpeningWindow> windows;
  friend bool operator==(const OpeningHours&, const OpeningHours&) = default;
};

/// Reaction to others who wait for the nodes of a partition: none, ask for no more, or leave after
/// what runs now.
enum class Yield : std::uint8_t { never, hold, drain };
inline constexpr std::array<std::string_view, 3> yield_words{"never", "hold", "drain"};

/// Reaction to a node that is slower than its peers: report it, or keep it out of new allocations
/// like one that has failed.
enum class SlowNodes : std::uint8_t { report, exclude };
inline constexpr std::array<std::string_view, 2> slow_nodes_words{"report", "exclude"};

/// Limits that a node agent keeps to in one attempt: part of spec.json as it is. To add one: a
/// member here, its row in sweep/policy.cpp, and the place that keeps to it.
struct AttemptLimits {
  // without progress in a phase, seconds
  double start_limit_s = 60;
  double rendezvous_limit_s = 60;
  double init_limit_s = 300;
  double first_step_limit_s = 300;
  double step_limit_s = 120;
  double teardown_limit_s = 60;
  double attempt_limit_s = 7200;  ///< limit for the whole attempt
  double grace_s = 5;
  std::int64_t keep_log_bytes = std::int64_t{256} * 1024;
  // Limits with flight recorders: a train step in which nothing advances for max(hang_floor_s,
  // hang_factor * the longest step so far) is a hang.
  double hang_floor_s = 5;
  double hang_factor = 2;
  double evidence_s = 1;  ///< time for the ranks to tell about themselves before they are ended
  /// Mean share of a node's CPUs above which other users contaminate a measurement. 1: it is
  /// recorded and contaminates nothing. 0: it is not measured.
  double others_cpu_limit = 1;
  double gpu_release_s = 30;  ///< time for GPU memory to come back before a start; 0: not checked
  std::int64_t gpu_slack_bytes = std::int64_t{1} << 30;  ///< memory that may be in use then
  double learn_factor = 5;  ///< factor of limits learnt from finished attempts of the group; 0:
                            ///< none are learnt
  double learn_floor_s = 60;
  double gdb_s = 10;  ///< time for gdb to look at hung ranks; 0: it is not asked
  std::int64_t log_limit_bytes = std::int64_t{1} << 30;    ///< limit of one rank's output; 0: none
  std::int64_t file_limit_bytes = std::int64_t{64} << 30;  ///< limit of one file; 0: none
  double container_limit_s = 1200;                         ///< time for a node to make a container

  friend bool operator==(const AttemptLimits&, const AttemptLimits&) = default;
};
template <>
inline constexpr auto described<AttemptLimits> = Entries{
    SHARDSWEEP_FIELDS(AttemptLimits, start_limit_s, rendezvous_limit_s, init_limit_s,
        first_step_limit_s, step_limit_s, teardown_limit_s, attempt_limit_s, grace_s,
        keep_log_bytes),
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, AttemptLimits, hang_floor_s, hang_factor, evidence_s,
        others_cpu_limit, gpu_release_s, gpu_slack_bytes, learn_factor, learn_floor_s, gdb_s,
        log_limit_bytes, file_limit_bytes, container_limit_s),
};

/// Limits that lead and node agents keep to as long as an allocation lives: part of allocation.json
/// as it is.
struct LaneLimits {
  double beat_s = 1;
  double agent_lease_s = 15;
  double node_lease_s = 15;
  double file_beat_s = 5;
  double watch_interval_s = 0.2;
  double idle_limit_s = 60;  ///< a lead with nothing assigned for this long ends the allocation
  // Wall time: what cannot end before the allocation does is not started.
  double time_margin = 1.5;       ///< an attempt may take its prediction times this
  double stop_before_end_s = 60;  ///< kept free for packing, the last words and the scheduler
  double agents_limit_s = 600;    ///< time for all node agents to start
  // The check of nodes, an allocation's first act. 0: not made.
  double check_home_s = 0;     ///< time in which the database's folder answers
  double check_memory = 0;     ///< least share of the host memory that is usually free
  double check_gemm = 0;       ///< least share of the usual rate of matrix products
  double check_clocks = 0;     ///< least share of the usual clock meanwhile
  double check_allreduce = 0;  ///< least share of the usual bandwidth between two nodes
  double check_limit_s = 60;   ///< for all of it, on all nodes
  double check_hook_s = 60;    ///< time for each line of the site's own
  [[nodiscard]] constexpr bool checks_nodes() const {
    return check_home_s > 0 || check_memory > 0 || check_gemm > 0 || check_clocks > 0 ||
        check_allreduce > 0;
  }

  friend bool operator==(const LaneLimits&, const LaneLimits&) = default;
};
template <>
inline constexpr auto described<LaneLimits> = Entries{
    SHARDSWEEP_FIELDS(LaneLimits, beat_s, agent_lease_s, node_lease_s, file_beat_s,
        watch_interval_s, idle_limit_s),
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, LaneLimits, time_margin, stop_before_end_s,
        agents_limit_s, check_home_s, check_memory, check_gemm, check_clocks, check_allreduce,
        check_limit_s, check_hook_s),
};

struct Policy {
  AttemptLimits attempt;
  LaneLimits lane;

  // retry
  std::int64_t retry_on_trial = 1;
  std::int64_t retry_elsewhere = 5;
  std::int64_t retry_fragmented = 1;
  std::int64_t retry_failed_starts = 3;
  std::int64_t retry_failed_nodes = 10;

  // node_health
  std::int64_t quarantine_after = 1;
  std::int64_t suspect_after = 2;
  std::int64_t layout_after = 3;
  std::int64_t most_out = 16;
  double probe_after_s = 600;
  double probe_limit_s = 300;
  double remember_s = 7 * 86400;
  std::int64_t control_tolerance = 10;  ///< percent
  double network_factor = 2;
  std::int64_t control_least = 3;
  double slow_node_factor = 1.2;
  std::int64_t slow_node_after = 3;
  std::int64_t slow_nodes = 0;  ///< SlowNodes

  // limits
  std::int64_t max_points = 10'000'000;
  std::int64_t max_stored_left_out = 50'000;
  std::int64_t max_nodes = 0;
  double max_gpu_hours = 0;
  std::int64_t max_allocations = 0;
  std::int64_t max_pending = 0;
  std::int64_t partition_share = 100;
  std::int64_t yield = 0;  ///< Yield
  OpeningHours hours;
  double slow_factor = 20;
  double slow_floor_s = 900;

  // lane
  std::int64_t lane_length = 0;
  std::int64_t lane_array = 1;
  double lane_ahead_s = 1800;
  double lane_min_time_s = 900;
  double lane_max_time_s = 4 * 3600;

  // slurm
  double look_s = 10;
  double submit_limit_s = 150;
  double look_others_s = 60;

  // daemon
  double tick_s = 0.25;
  double idle_tick_s = 1;
  double lease_renew_s = 5;
  double lease_ttl_s = 30;
  double claim_limit_s = 600;
  double lead_limit_s = 300;
  double file_delay_s = 60;
  double records_limit_s = 90;
  double query_limit_s = 60;
  double stall_s = 3 * 3600;
  double blind_s = 600;

  friend bool operator==(const Policy&, const Policy&) = default;
};

/// percent is written as `50%`, yield and slow_nodes as one of their words.
enum class PolicyUnit : std::uint8_t {
  seconds,
  bytes,
  count,
  hours,
  factor,
  percent,
  yield,
  slow_nodes
};

/// Words for the values of a unit, from 0 on; empty: they are numbers.
[[nodiscard]] constexpr std::span<const std::string_view> words_of(PolicyUnit unit) {
  if (unit == PolicyUnit::yield) return yield_words;
  if (unit == PolicyUnit::slow_nodes) return slow_nodes_words;
  return {};
}

/// Place of a value in a Policy.
using PolicyValue = std::variant<double*, std::int64_t*>;

struct PolicyField {
  std::string_view section;  ///< the map in the sweep file: watch, retry, node_health, limits,
                             ///< lane, slurm, …
  std::string_view key;
  PolicyUnit unit;
  PolicyValue (*member)(Policy&);
  double minimum;
  double maximum;
  std::string_view reason;  ///< why the default is what it is; `plan --explain` prints it

  [[nodiscard]] PolicyValue in(Policy& policy) const { return member(policy); }
  /// nullptr: it is of the other type.
  template <class T>
  [[nodiscard]] const T* in(const Policy& policy) const {
    const auto value = member(const_cast<Policy&>(policy));  // NOLINT: only read
    const auto* found = std::get_if<T*>(&value);
    return found == nullptr ? nullptr : *found;
  }
};

[[nodiscard]] std::span<const PolicyField> policy_fields();

/// `limits.hours`, the one value that is no number.
inline constexpr std::string_view hours_section = "limits";
inline constexpr std::string_view hours_key = "hours";
inline constexpr std::string_view hours_reason =
    "by the login node's clock, days optional; what runs has ended by their end";

}  // namespace shardsweep
