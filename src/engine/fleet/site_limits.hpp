// SPDX-License-Identifier: Apache-2.0
// What a sweep owes to others on a cluster: hours of the day, a share of a partition, way for
// who waits, no more jobs in the queue than it may have. Pure: each answer is a sentence for
// `status`, and none where nothing holds the sweep.
#pragma once

#include "fleet/world.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/scheduler.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Facts about a sweep, besides its rows, that decide() needs.
struct SweepFacts {
  Policy policy;
  std::int32_t slots_per_node = 1;
  Backend backend = Backend::none;  ///< local: one allocation at a time on this machine
  double gpu_hours_used = 0;
  bool skip_larger_after_oom = true;  ///< search.rules.micro_batch
  std::string proof{};  ///< the sweep that has to end before this one begins; empty: none
  // Options of the site, by node count.
  std::vector<SlurmValue> partition{};
  std::vector<SlurmValue> account{};
  std::vector<SlurmValue> qos{};
  std::vector<SlurmValue> gpus{};    ///< asked of each node: gpu:8
  std::vector<SlurmValue> memory{};  ///< memory asked of each node: 64G
  bool picks_nodes = false;          ///< options that not every idle node may satisfy, or that wait
  SiteFacts site{};
  bool site_awaited = false;  ///< the first answer of its site is still to come
};

/// The moment by the clock on the wall.
struct WallClock {
  Timestamp now = 0;
  std::int32_t minute = 0;  ///< minute of the week, from Monday 00:00
  std::int32_t second = 0;  ///< second of that minute
};

class SiteLimits {
 public:
  SiteLimits(const World& world, const std::map<SweepId, SweepFacts>& sweeps, WallClock clock)
      : world_(world), sweeps_(sweeps), clock_(clock) {}

  /// Why no allocation of `nodes` nodes is to be asked for whose longest attempt needs
  /// `needed_s` of wall time in all.
  [[nodiscard]] std::optional<std::string> refuses(
      const SweepFacts& facts, std::int32_t nodes, double needed_s) const;
  /// True if the allocation has to leave after its running attempt.
  [[nodiscard]] bool must_give_back(const SweepFacts& facts, const AllocationRow& row) const;
  /// End of the allowed hours; 0: never.
  [[nodiscard]] Timestamp closes_at(const SweepFacts& facts) const;
  /// Wall time for an allocation that wants `wanted_s` and must have `needed_s`. It is at most what
  /// the partition allows, ends before the allowed hours do, and leaves time to wait for nodes.
  [[nodiscard]] double time_within(
      const SweepFacts& facts, std::int32_t nodes, double wanted_s, double needed_s) const;

 private:
  [[nodiscard]] std::optional<std::string> outside_hours(
      const SweepFacts& facts, double needed_s) const;
  [[nodiscard]] std::optional<std::string> share_is_used(
      const SweepFacts& facts, std::int32_t nodes) const;
  [[nodiscard]] std::optional<std::string> others_wait(
      const SweepFacts& facts, std::int32_t nodes) const;
  [[nodiscard]] std::optional<std::string> queue_is_full(
      const SweepFacts& facts, std::int32_t nodes) const;
  template <class Fits>
  [[nodiscard]] std::int64_t count(const Fits& fits, bool nodes) const;

  const World& world_;
  const std::map<SweepId, SweepFacts>& sweeps_;
  WallClock clock_;
};

/// Fills in the sbatch options of the site file: partitions, account, QOS, GPUs and memory.
void add_options(const SweepSpec& sweep, const SiteSpec& site, SweepFacts& facts);
/// Number of nodes that were idle at the last answer and could start a job of this size at once; 0
/// if that is unknown.
[[nodiscard]] std::int64_t idle_nodes(const SweepFacts& facts, std::int32_t nodes);
/// Reason why a job of so many nodes would wait for ever: "4 nodes, and partition 'main' has 2".
/// Empty if it can start, or if Slurm has not said.
[[nodiscard]] std::optional<std::string> beyond_partition(
    const SweepFacts& facts, std::int32_t nodes);
/// Why no partition gives wall time for an attempt that needs at least `least_s`; empty: one does.
[[nodiscard]] std::optional<std::string> beyond_time(
    const SweepFacts& facts, std::int32_t nodes, double least_s);
inline constexpr std::string_view beyond_advice =
    "Name another partition in the site file, or leave such points out";

}  // namespace shardsweep
