// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/survey.hpp"

#include "slurm/words/site_survey.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace shardsweep::slurm {
namespace {

// sacctmgr separates by '|' and lets nobody choose; names of accounts and QOS can't hold one.
constexpr char bar = '|';

std::optional<std::int64_t> number_of(std::string_view text) {
  const auto number = number_from<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// Calls `take(parts)` for every line, which is false if the line is no such thing.
template <class Take>
Result<void> each_line(
    std::string_view text, std::string_view program, std::size_t parts, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const auto fields = split(line, bar);
    if (fields.size() != parts || !take(fields)) {
      return fault(FaultKind::unavailable, "{} printed an unexpected line: '{}'", program,
          one_line(line, 200));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> partitions_command() {
  return {"sinfo", "--noheader", "--format=%P|%a|%D|%l|%c|%m|%G|%t"};
}

Result<void> read_partitions(std::string_view text, SiteFacts& into) {
  SHARDSWEEP_ASSIGN(const auto groups, parse_partitions(text));
  for (auto& [name, partition] : into.partitions)
    partition = {.others_waiting = partition.others_waiting};
  for (const Partition& group : groups) {
    if (group.is_default) into.default_partition = group.name;
    PartitionFacts& seen = into.partitions[group.name];
    seen.nodes += static_cast<std::int32_t>(group.nodes);
    seen.alike.push_back(
        {group.nodes, gpus_of(group.gres), group.memory_mb, group.up ? group.idle : 0});
    seen.longest_s = seconds_of(group.time_limit);
  }
  into.partitions_known = true;
  return {};
}

bool waits_for_nodes(std::string_view reason) {
  return reason == "Resources" || reason == "Priority";
}

std::vector<std::string> waiting_command() {
  return {"squeue", "--noheader", "--states=PENDING", "--format=%U|%P|%r"};
}

Result<void> read_waiting(std::string_view text, std::int64_t own_uid, SiteFacts& into) {
  SiteFacts facts = into;
  for (auto& [name, partition] : facts.partitions)
    partition.others_waiting = 0;
  SHARDSWEEP_TRY(each_line(text, "squeue", 3, [&](const auto& fields) {
    const auto uid = number_of(fields[0]);
    if (!uid) return false;
    if (*uid == own_uid || !waits_for_nodes(fields[2])) return true;
    for (const std::string_view name : split(fields[1], ','))
      ++facts.partitions[std::string(name)].others_waiting;
    return true;
  }));
  facts.others_known = true;
  into = std::move(facts);
  return {};
}

std::vector<std::string> accounts_command(std::string_view user) {
  return {"sacctmgr", "--noheader", "--parsable2", "show", "user", "where",
      fmt::format("name={}", user), "withassoc",
      "format=defaultaccount,account,maxsubmitjobs,defaultqos"};
}

Result<void> read_accounts(std::string_view text, SiteFacts& into) {
  std::map<std::string, AccountFacts> accounts;
  std::string default_account;
  SHARDSWEEP_TRY(each_line(text, "sacctmgr", 4, [&](const auto& fields) {
    const auto most = number_of(fields[2]);
    if (!most && !fields[2].empty()) return false;
    default_account = fields[0];
    const bool fresh = accounts.find(std::string(fields[1])) == accounts.end();
    AccountFacts& account = accounts[std::string(fields[1])];
    account.default_qos = fields[3];
    // One row per partition where an association names one: the largest of them, since a job
    // beyond a smaller one is told to come back.
    if (fresh) account.most_jobs = most;
    if (!most || !account.most_jobs) {
      account.most_jobs.reset();
    } else {
      account.most_jobs = std::max(*account.most_jobs, *most);
    }
    return true;
  }));
  into.accounts = std::move(accounts);
  into.default_account = std::move(default_account);
  return {};
}

std::vector<std::string> qos_command() {
  return {"sacctmgr", "--noheader", "--parsable2", "show", "qos",
      "format=name,maxsubmitjobsperuser,maxsubmitjobsperaccount,grpsubmitjobs"};
}

Result<void> read_qos(std::string_view text, SiteFacts& into) {
  std::map<std::string, std::int64_t> limits;
  SHARDSWEEP_TRY(each_line(text, "sacctmgr", 4, [&](const auto& fields) {
    std::optional<std::int64_t> least;
    for (std::size_t at = 1; at < 4; ++at) {
      const auto limit = number_of(fields[at]);
      if (!limit && !fields[at].empty()) return false;
      if (limit) least = std::min(least.value_or(*limit), *limit);
    }
    if (least) limits[std::string(fields[0])] = *least;
    return true;
  }));
  into.most_jobs_by_qos = std::move(limits);
  return {};
}

}  // namespace shardsweep::slurm
