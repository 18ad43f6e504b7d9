// SPDX-License-Identifier: Apache-2.0
// Decision: Limits for the benefit of other users are decided with each allocation. Each
// refusal is a sentence in `status`.
#include "fleet/site_limits.hpp"

#include "slurm/words/script.hpp"
#include "slurm/words/site_survey.hpp"
#include "sweep/opening_hours.hpp"
#include "text/numbers.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

// Slurm counts whole minutes and needs one to start a job.
constexpr double slack_s = 120;

constexpr double mebi = 1 << 20;

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// A job may name several partitions: it starts in one of them.
std::vector<std::string> partitions_of(const SweepFacts& facts, std::int32_t nodes) {
  const std::string named = option_for(facts.partition, nodes);
  return words_of(named.empty() ? facts.site.default_partition : named);
}

using Partitions = std::map<std::string, PartitionFacts>;

/// The partitions for so many nodes, as Slurm describes them; empty if one of them is unknown.
std::vector<const Partitions::value_type*> partitions_seen(
    const SweepFacts& facts, std::int32_t nodes) {
  std::vector<const Partitions::value_type*> seen;
  for (const std::string& name : partitions_of(facts, nodes)) {
    const auto found = facts.site.partitions.find(name);
    if (found == facts.site.partitions.end()) return {};
    seen.push_back(&*found);
  }
  return seen;
}

/// GPUs and memory that a job asks of each of its nodes.
struct NodeNeeds {
  NodeNeeds(const SweepFacts& facts, std::int32_t nodes)
      : gpus(slurm::gpus_of(option_for(facts.gpus, nodes))),
        memory_mb(slurm::mebibytes_of(option_for(facts.memory, nodes))) {}
  std::int64_t gpus = 0;
  std::int64_t memory_mb = 0;

  /// Sum of `number` over the groups of nodes that have the GPUs and the memory.
  [[nodiscard]] std::int64_t fitting(
      const PartitionFacts& partition, std::int64_t NodesAlike::*number) const {
    std::int64_t sum = 0;
    for (const NodesAlike& alike : partition.alike) {
      if (alike.gpus < gpus || (alike.memory_mb != 0 && alike.memory_mb < memory_mb)) continue;
      sum += alike.*number;
    }
    return sum;
  }
};

/// The partition whose jobs may run longest; null: there is no limit, or none is known.
const Partitions::value_type* longest_partition(const SweepFacts& facts, std::int32_t nodes) {
  const Partitions::value_type* longest = nullptr;
  for (const auto* partition : partitions_seen(facts, nodes)) {
    if (partition->second.longest_s <= 0) return nullptr;
    if (longest == nullptr || partition->second.longest_s > longest->second.longest_s)
      longest = partition;
  }
  return longest;
}

/// slurmrestd lists partitions from v0.0.40 on without saying which is the default one.
std::string which_partition(std::string_view limit) {
  return fmt::format(
      "{}: Slurm does not say which partition is the default one. Name a partition in the site "
      "file",
      limit);
}

bool share_any(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
      [&](const std::string& word) { return std::find(b.begin(), b.end(), word) != b.end(); });
}

std::string account_of(const SweepFacts& facts, std::int32_t nodes) {
  const std::string named = option_for(facts.account, nodes);
  return named.empty() ? facts.site.default_account : named;
}

std::string qos_of(const SweepFacts& facts, std::int32_t nodes) {
  std::string named = option_for(facts.qos, nodes);
  if (!named.empty()) return named;
  const auto account = facts.site.accounts.find(account_of(facts, nodes));
  return account == facts.site.accounts.end() ? "" : account->second.default_qos;
}

/// True for more than a number of GPUs: gpu:h100:8, gpu:8,nvme:1. Slurm was asked for numbers
/// alone.
bool names_a_kind(std::string_view gres) {
  return gres.substr(0, 4) != "gpu:" || gres.find_first_not_of("0123456789", 4) != gres.npos;
}

std::string jobs_text(std::int64_t count) {
  return fmt::format("{} job{}", count, count == 1 ? "" : "s");
}

}  // namespace

void add_options(const SweepSpec& sweep, const SiteSpec& site, SweepFacts& facts) {
  const auto values = [&](const char* option) {
    const auto found = site.slurm.find(option);
    return found == site.slurm.end() ? std::vector<SlurmValue>{} : found->second;
  };
  facts.partition = values("partition");
  facts.account = values("account");
  facts.qos = values("qos");
  facts.memory = values("mem");
  facts.gpus = gpus_of_nodes(sweep, site);
  // Plugins add options, so those are listed that leave a job all nodes of its partition.
  constexpr std::array harmless{"partition", "account", "qos", "gpus-per-node", "gres", "mem",
      "time", "exclusive", "comment", "nice", "mail-type", "mail-user", "signal", "wckey"};
  facts.picks_nodes = std::any_of(site.slurm.begin(), site.slurm.end(), [&](const auto& option) {
    return std::find(harmless.begin(), harmless.end(), option.first) == harmless.end();
  });
}

std::int64_t idle_nodes(const SweepFacts& facts, std::int32_t nodes) {
  std::int64_t most = 0;
  if (facts.picks_nodes || names_a_kind(option_for(facts.gpus, nodes))) return most;
  for (const auto* partition : partitions_seen(facts, nodes))
    most = std::max(most, NodeNeeds(facts, nodes).fitting(partition->second, &NodesAlike::idle));
  return most;
}

std::optional<std::string> beyond_partition(const SweepFacts& facts, std::int32_t nodes) {
  const auto seen = partitions_seen(facts, nodes);
  const NodeNeeds needs(facts, nodes);
  const auto fitting = [&](const PartitionFacts& partition) {
    return partition.alike.empty() ? partition.nodes : needs.fitting(partition, &NodesAlike::nodes);
  };
  const auto largest = std::max_element(seen.begin(), seen.end(),
      [&](const auto& a, const auto& b) { return fitting(a->second) < fitting(b->second); });
  if (largest == seen.end() || fitting((*largest)->second) >= nodes) return std::nullopt;
  const auto& [name, partition] = **largest;
  std::string asked = counted(nodes, "node");
  if (partition.nodes >= nodes) {
    if (needs.gpus > 0) asked += fmt::format(" of {}", counted(needs.gpus, "GPU"));
    if (needs.memory_mb > 0) {
      const auto bytes = static_cast<double>(needs.memory_mb) * mebi;
      asked += fmt::format(" with {} of memory", bytes_text(bytes));
    }
  }
  return fmt::format("{}, and partition '{}' has {}", asked, name,
      partition.nodes >= nodes ? counted(fitting(partition), "such node")
                               : fmt::format("{}", partition.nodes));
}

std::optional<std::string> beyond_time(
    const SweepFacts& facts, std::int32_t nodes, double least_s) {
  const auto longest = longest_partition(facts, nodes);
  if (longest == nullptr || least_s <= longest->second.longest_s) return std::nullopt;
  return fmt::format("{} of wall time, but partition '{}' allows {}", duration_text(least_s),
      longest->first, duration_text(longest->second.longest_s));
}

/// Counts live allocations on a cluster for which `fits` holds, or might hold; `nodes`: counts
/// their nodes.
template <class Fits>
std::int64_t SiteLimits::count(const Fits& fits, bool nodes) const {
  std::int64_t sum = 0;
  for (const auto& [id, row] : world_.allocations()) {
    if (row.state == State::ended || row.backend != Backend::slurm) continue;
    const auto facts = sweeps_.find(row.sweep);
    if (facts != sweeps_.end() && !fits(facts->second, row.nodes)) continue;
    sum += nodes ? row.nodes : 1;
  }
  return sum;
}

std::optional<std::string> SiteLimits::refuses(
    const SweepFacts& facts, std::int32_t nodes, double needed_s) const {
  if (auto why = outside_hours(facts, needed_s)) return why;
  if (facts.backend != Backend::slurm) return std::nullopt;
  if (facts.site_awaited) return "Slurm is being asked for its limits";
  if (const auto why = beyond_partition(facts, nodes)) {
    return fmt::format("a trial needs {}: no job is submitted, because it would wait for ever. {}",
        *why, beyond_advice);
  }
  if (auto why = queue_is_full(facts, nodes)) return why;
  if (auto why = share_is_used(facts, nodes)) return why;
  return others_wait(facts, nodes);
}

std::optional<std::string> SiteLimits::outside_hours(
    const SweepFacts& facts, double needed_s) const {
  const OpeningHours& hours = facts.policy.hours;
  if (hours.windows.empty()) return std::nullopt;
  const std::int32_t opens = opens_in_min(hours, clock_.minute);
  if (opens > 0) {
    return fmt::format("outside limits.hours ({}): goes on {}", opening_hours_text(hours),
        week_time_text(clock_.minute + opens));
  }
  const std::int32_t open = open_for_min(hours, clock_.minute);
  const double left_s = open * 60.0 - clock_.second;
  if (open >= minutes_of_week || left_s >= needed_s + slack_s) return std::nullopt;
  return fmt::format("limits.hours end {}: the remaining {:.0f} min are too short",
      week_time_text(clock_.minute + open), left_s / 60);
}

std::optional<std::string> SiteLimits::queue_is_full(
    const SweepFacts& facts, std::int32_t nodes) const {
  const std::string qos = qos_of(facts, nodes);
  const std::string account = account_of(facts, nodes);
  const auto by_qos = facts.site.most_jobs_by_qos.find(qos);
  const auto by_account = facts.site.accounts.find(account);
  // A QOS's own limit takes the place of the association's.
  if (by_qos != facts.site.most_jobs_by_qos.end()) {
    const auto same = [&](const SweepFacts& other, std::int32_t own) {
      return qos_of(other, own) == qos;
    };
    if (count(same, false) < by_qos->second) return std::nullopt;
    return fmt::format("you have reached your limit in Slurm: {} in the queue (QOS '{}')",
        jobs_text(by_qos->second), qos);
  }
  if (by_account == facts.site.accounts.end() || !by_account->second.most_jobs) return std::nullopt;
  const auto same = [&](const SweepFacts& other, std::int32_t own) {
    return account_of(other, own) == account;
  };
  if (count(same, false) < *by_account->second.most_jobs) return std::nullopt;
  return fmt::format("you have reached your limit in Slurm: {} in the queue (account '{}')",
      jobs_text(*by_account->second.most_jobs), account);
}

std::optional<std::string> SiteLimits::share_is_used(
    const SweepFacts& facts, std::int32_t nodes) const {
  const std::int64_t share = facts.policy.partition_share;
  if (share >= 100) return std::nullopt;
  if (!facts.site.partitions_known)
    return "limits.partition_share: Slurm has not said how large its partitions are";
  const auto partitions = partitions_of(facts, nodes);
  if (partitions.empty()) return which_partition("limits.partition_share");
  for (const std::string& name : partitions) {
    const auto found = facts.site.partitions.find(name);
    if (found == facts.site.partitions.end())
      return fmt::format("limits.partition_share: Slurm names no partition '{}'", name);
    const std::int64_t ours = found->second.nodes * share / 100;
    if (nodes > ours) {
      return fmt::format(
          "limits.partition_share: {}% of the {} nodes of '{}' is {}, but a trial needs {}", share,
          found->second.nodes, name, ours, nodes);
    }
    const auto same = [&](const SweepFacts& other, std::int32_t own) {
      return share_any(partitions_of(other, own), {name});
    };
    if (const std::int64_t held = count(same, true); held + nodes > ours) {
      return fmt::format(
          "limits.partition_share: {} nodes of '{}' may be used and {} are requested already; "
          "a trial needs {}",
          ours, name, held, nodes);
    }
  }
  return std::nullopt;
}

std::optional<std::string> SiteLimits::others_wait(
    const SweepFacts& facts, std::int32_t nodes) const {
  if (static_cast<Yield>(facts.policy.yield) == Yield::never) return std::nullopt;
  if (!facts.site.others_known)
    return "limits.yield: Slurm has not said yet whether jobs of other users wait";
  const auto partitions = partitions_of(facts, nodes);
  if (partitions.empty()) return which_partition("limits.yield");
  for (const std::string& name : partitions) {
    const auto found = facts.site.partitions.find(name);
    if (found == facts.site.partitions.end() || found->second.others_waiting == 0) continue;
    return fmt::format("limits.yield: {} of other users {} for nodes of '{}'",
        jobs_text(found->second.others_waiting),
        found->second.others_waiting == 1 ? "waits" : "wait", name);
  }
  return std::nullopt;
}

bool SiteLimits::must_give_back(const SweepFacts& facts, const AllocationRow& row) const {
  if (opens_in_min(facts.policy.hours, clock_.minute) > 0) return true;
  // A waiting job takes nothing from others, and keeps its place.
  const bool runs = row.claimed_at != 0 && row.backend != Backend::local;
  return runs && static_cast<Yield>(facts.policy.yield) == Yield::drain &&
      facts.site.others_known && !partitions_of(facts, row.nodes).empty() &&
      others_wait(facts, row.nodes).has_value();
}

Timestamp SiteLimits::closes_at(const SweepFacts& facts) const {
  const OpeningHours& hours = facts.policy.hours;
  const std::int32_t open = open_for_min(hours, clock_.minute);
  if (hours.windows.empty() || open >= minutes_of_week) return 0;
  return clock_.now + (std::int64_t{open} * 60 - clock_.second) * 1'000'000;
}

double SiteLimits::time_within(
    const SweepFacts& facts, std::int32_t nodes, double wanted_s, double needed_s) const {
  if (const auto* partition = longest_partition(facts, nodes))
    wanted_s = std::min(wanted_s, partition->second.longest_s);
  const Timestamp closes = closes_at(facts);
  if (closes == 0) return wanted_s;
  const double left_s = to_seconds(closes - clock_.now) - slack_s;
  return std::min(wanted_s, std::max(needed_s, left_s / 2));
}

}  // namespace shardsweep
