// SPDX-License-Identifier: Apache-2.0
// What of an attempt differs where its ranks are the tasks of one Slurm step.
#include "agent/container_rank.hpp"
#include "agent/rank_logs.hpp"
#include "agent/running_attempt.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "attempt/step_output.hpp"
#include "machine/processes.hpp"

#include <fmt/format.h>

#include <unistd.h>

namespace shardsweep::agent {
namespace {

constexpr std::size_t most_step_output = std::size_t{64} * 1024;

}  // namespace

/// One srun in the ranks' place: its tasks become them (step_rank.cpp).
void RunningAttempt::launch_step(const Environment& own, const std::string& meet) {
  Environment environment = srun_environment(own);
  environment.push_back(
      fmt::format("{}={}/{}/{}", marker_variable, spec_.token, spec_.attempt, node_.name));
  environment.push_back(fmt::format("{}={}", meet_variable, meet));
  const bool by_hostfile = write_hostfile();
  if (by_hostfile) {
    // srun takes the allocation's number of nodes from these; a hostfile may have fewer.
    std::erase_if(environment, [](const std::string& entry) {
      return entry.starts_with("SLURM_NNODES=") || entry.starts_with("SLURM_JOB_NUM_NODES=");
    });
    environment.push_back(fmt::format("SLURM_HOSTFILE={}", hostfile().string()));
  }
  const auto step = find_program("srun", own).and_then([&](const std::string& srun) {
    return own_program().and_then([&](const std::string& agent) {
      return start_rank(
          {step_command(srun, spec_, {agent, "rank", "--dir", paths_.dir}, by_hostfile),
           environment, paths_.dir, log_of(-1), 0});
    });
  });
  if (!step) {
    evidence_.push_back(
        {clock_.now(), Outcome::node_failure, step.error().what, SaidBy::agent});
    return begin_ending();
  }
  ranks_.push_back({-1, *step, false, {}});
  follow_environment(0, first_of_step(own, meet));
  for (int rank = 0; rank < spec_.world; ++rank)
    follow_records(rank);
}

std::filesystem::path RunningAttempt::hostfile() const {
  return paths_.dir / "hosts";
}

/// A node for each task, where ranks do not follow Slurm's order. False: they do.
bool RunningAttempt::write_hostfile() const {
  if (!node_.is_reordered || node_.job_nodes.empty()) return false;
  std::string text;
  for (int rank = 0; rank < spec_.world;) {
    const auto node = static_cast<std::size_t>(rank / spec_.ranks_per_node);
    if (node >= node_.job_nodes.size()) return false;
    text += node_.job_nodes[node] + "\n";
    rank += processes_of(spec_, spec_.ranks_per_node) < spec_.ranks_per_node
                ? spec_.ranks_per_node
                : 1;
  }
  const auto written = write_file_durably(hostfile(), text);
  if (!written) log_.line(written.error().what);
  return written.has_value();
}

/// The step's first rank, as its own agent starts it (step_rank.cpp).
RankStart RunningAttempt::first_of_step(const Environment& own, const std::string& meet) const {
  const RankPlace place{0, 0, spec_.ranks_per_node, node_.name};
  RankProcess process{spec_.argv, rank_environment(own, spec_, place, {}),
                      paths_.dir, paths_.rank_log(0),
                      0,          spec_.limits.file_limit_bytes};
  complete_trainer(process, spec_, place, meet, {});
  return enter_container(process, spec_, {0, meet}, place_of_container(own, spec_.token, false),
                         paths_.dir.string());
}

/// Without a single rank nothing was asked of the layout: Slurm's controller was away, or a
/// node.
bool RunningAttempt::step_has_started() const {
  for (int rank = 0; rank < spec_.world; ++rank) {
    if (::access(log_of(rank).c_str(), F_OK) == 0) return true;
  }
  return false;
}

Evidence RunningAttempt::step_exit(int status, bool told) const {
  if (!step_has_started()) return no_step(fmt::format("srun ended with {}", status));
  for (int rank = 0; rank < spec_.world; ++rank) {
    if (const auto failure = start_failure_in(last_line_of(log_of(rank))))
      return evidence_of_no_start(rank, failure->error, failure->what, clock_.now());
  }
  const auto output = read_file(log_of(-1));
  return evidence_of_step(output.value_or(""), status, clock_.now(), told);
}

Evidence RunningAttempt::no_step(const std::string& why) const {
  return evidence_of_no_step(read_ends(log_of(-1), most_step_output), why, clock_.now());
}

/// A step's ranks fill one node after the other (step_command); empty: not known.
std::string RunningAttempt::node_of(const Evidence& first) const {
  if (!first.ending.node.empty() || node_.job_nodes.empty()) return first.ending.node;
  if (node_.job_nodes.size() == 1) return node_.job_nodes.front();
  const auto nodes = (spec_.world + spec_.ranks_per_node - 1) / spec_.ranks_per_node;
  const bool whole = static_cast<std::size_t>(nodes) == node_.job_nodes.size();
  if (!whole || first.rank < 0 || first.rank >= spec_.world) return "";
  return node_.job_nodes.at(static_cast<std::size_t>(first.rank / spec_.ranks_per_node));
}

/// Of a step on several nodes this node agent sees one. A failure that belongs to a node says
/// to which, or that this is not known.
void RunningAttempt::name_node(NodeEnded& ended, const Evidence& first) const {
  const bool of_a_node = ended.ending.outcome == Outcome::node_failure ||
                         ended.ending.outcome == Outcome::crashed ||
                         ended.ending.outcome == Outcome::comm_error ||
                         ended.ending.outcome == Outcome::lost;
  if (!node_.ranks_are_step || !of_a_node) return;
  ended.ending.node = node_of(first);
  if (!ended.ending.node.empty() || node_.job_nodes.empty()) return;
  ended.ending.cause +=
      fmt::format("; it is not known on which of {} nodes ({}, …) this happened",
                  node_.job_nodes.size(), node_.job_nodes.front());
}

}  // namespace shardsweep::agent
