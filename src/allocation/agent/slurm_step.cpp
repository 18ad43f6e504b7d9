// SPDX-License-Identifier: Apache-2.0
#include "agent/slurm_step.hpp"

#include "agent/containers.hpp"
#include "agent/environment_reading.hpp"
#include "agent/evidence.hpp"
#include "agent/side_run.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "attempt/step_output.hpp"
#include "machine/file_ends.hpp"
#include "machine/processes.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace shardsweep::agent {
namespace {

constexpr std::size_t most_step_output = std::size_t{64} * 1024;
constexpr double look_again_s = 1;

}  // namespace

Result<pid_t> SlurmStep::launch(const Environment& own, const std::string& meet) const {
  const AttemptSpec& spec = here_.spec;
  Environment environment = srun_environment(own);
  environment.push_back(
      fmt::format("{}={}/{}/{}", marker_variable, spec.token, spec.attempt, here_.node.name));
  environment.push_back(fmt::format("{}={}", meet_variable, meet));
  const bool by_hostfile = write_hostfile();
  if (by_hostfile) {
    // srun takes the allocation's number of nodes from these; a hostfile may have fewer.
    std::erase_if(environment, [](const std::string& entry) {
      return entry.starts_with("SLURM_NNODES=") || entry.starts_with("SLURM_JOB_NUM_NODES=");
    });
    environment.push_back(fmt::format("SLURM_HOSTFILE={}", hostfile().string()));
  }
  SHARDSWEEP_ASSIGN(const std::string srun, find_program("srun", own));
  SHARDSWEEP_ASSIGN(const std::string agent, own_program());
  return start_rank(
      {step_command(srun, spec, {agent, "rank", "--dir", here_.paths.dir}, by_hostfile),
          environment, here_.paths.dir, here_.log_of(-1), 0});
}

/// A node for each task, if ranks do not follow Slurm's order. False: they do.
bool SlurmStep::write_hostfile() const {
  const NodeIdentity& node = here_.node;
  if (!node.is_reordered || node.job_nodes.empty()) return false;
  const int each = here_.spec.ranks_per_node;
  std::string text;
  for (int rank = 0; rank < here_.spec.world;) {
    const auto at = static_cast<std::size_t>(rank / each);
    if (at >= node.job_nodes.size()) return false;
    text += node.job_nodes[at] + "\n";
    rank += processes_of(here_.spec, each) < each ? each : 1;
  }
  const auto written = write_own_file(hostfile(), text);
  if (!written) here_.log.line(written.error().what);
  return written.has_value();
}

RankStart SlurmStep::first_rank(const Environment& own, const std::string& meet) const {
  const AttemptSpec& spec = here_.spec;
  const RankPlace place{0, 0, spec.ranks_per_node, here_.node.name};
  RankProcess process{spec.argv, rank_environment(own, spec, place, {}), here_.paths.dir,
      here_.log_of(0), 0, spec.limits.file_limit_bytes};
  complete_trainer(process, spec, place, meet);
  return enter_container(process, spec, {0, meet}, place_of_container(own, spec.token, false),
      here_.paths.dir.string());
}

bool SlurmStep::has_started() const {
  for (int rank = 0; rank < here_.spec.world; ++rank) {
    if (::access(here_.log_of(rank).c_str(), F_OK) == 0) return true;
  }
  return false;
}

std::optional<Evidence> SlurmStep::failure_said(bool told) {
  if (here_.now_s() - looked_at_s_ < look_again_s || !has_started()) return std::nullopt;
  looked_at_s_ = here_.now_s();
  auto said =
      first_failure_in(file_ends(here_.log_of(-1), most_step_output).text, here_.clock.now(), told);
  if (!said) return std::nullopt;
  if (auto failure = start_failure()) return failure;
  return said;
}

/// Evidence of a rank whose program never began: for srun its exit code is like any other.
std::optional<Evidence> SlurmStep::start_failure() const {
  for (int rank = 0; rank < here_.spec.world; ++rank) {
    if (const auto failure = start_failure_in(last_line_of(here_.log_of(rank))))
      return evidence_of_no_start(rank, failure->error, failure->what, here_.clock.now());
  }
  return std::nullopt;
}

Evidence SlurmStep::exit_evidence(int status, bool told) const {
  if (!has_started()) return no_start_evidence(fmt::format("srun ended with {}", status));
  if (auto failure = start_failure()) return *std::move(failure);
  const auto output = read_own_file(here_.log_of(-1));
  return evidence_of_step(output.value_or(""), status, here_.clock.now(), told);
}

Evidence SlurmStep::no_start_evidence(const std::string& why) const {
  return evidence_of_no_step(
      file_ends(here_.log_of(-1), most_step_output).text, why, here_.clock.now());
}

/// A step's ranks fill one node after the other (step_command); empty: not known.
std::string SlurmStep::node_of(const Evidence& first) const {
  const auto& nodes = here_.node.job_nodes;
  if (!first.ending.node.empty() || nodes.empty()) return first.ending.node;
  if (nodes.size() == 1) return nodes.front();
  const bool whole = static_cast<std::size_t>(here_.nodes()) == nodes.size();
  if (!whole || first.rank < 0 || first.rank >= here_.spec.world) return "";
  return nodes.at(static_cast<std::size_t>(first.rank / here_.spec.ranks_per_node));
}

void SlurmStep::name_node(Ending& ending, const Evidence& first) const {
  const bool of_a_node = ending.outcome == Outcome::node_failure ||
      ending.outcome == Outcome::crashed || ending.outcome == Outcome::comm_error ||
      ending.outcome == Outcome::lost;
  if (!of_a_node) return;
  const auto& nodes = here_.node.job_nodes;
  ending.node = node_of(first);
  if (!ending.node.empty() || nodes.empty()) return;
  ending.cause += fmt::format(
      "; which of {} nodes ({}, …) it happened on is unknown", nodes.size(), nodes.front());
}

namespace {

constexpr int exit_not_started = 127;

Result<int> number_in(const Environment& own, const std::string& name) {
  const auto value = number_from<int>(value_in(own, name).value_or(""));
  if (!value || *value < 0)
    return fault(FaultKind::invalid_input,
        "no number in " + name + ": this process is no task of a Slurm step");
  return *value;
}

Result<RankProcess> rank_of(const AttemptPaths& paths, const Environment& own) {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(paths.spec()));
  SHARDSWEEP_ASSIGN(const AttemptSpec spec, decode_attempt_spec(text).and_then(with_secrets));
  RankPlace place;
  SHARDSWEEP_ASSIGN(place.rank, number_in(own, "SLURM_PROCID"));
  SHARDSWEEP_ASSIGN(place.local_rank, number_in(own, "SLURM_LOCALID"));
  // One task on each node stands for its ranks.
  if (processes_of(spec, spec.ranks_per_node) < spec.ranks_per_node)
    place.rank *= spec.ranks_per_node;
  if (place.rank >= spec.world || spec.argv.empty())
    return fault(FaultKind::invalid_input, "spec.json belongs to another step");
  place.local_world = spec.ranks_per_node;
  place.node = value_in(own, "SLURMD_NODENAME").value_or("");
  Environment environment = step_rank_environment(
      own, spec, place, visible_devices(own, spec.ranks_per_node, has_gpus()));
  if (spec.nccl_debug) ask_nccl(environment, spec, paths.nccl_log(place.rank));
  RankProcess process{spec.argv, std::move(environment), paths.dir, paths.rank_log(place.rank), 0,
      spec.limits.file_limit_bytes};
  complete_trainer(process, spec, place, value_in(own, meet_variable).value_or(""));
  SHARDSWEEP_TRY(equip_side_run(process, spec, paths, place.rank));
  if (place.rank == 0 && !spec.container)
    tell_environment(paths.environment(), process.environment);
  enter_container(process, spec, {place.rank, value_in(own, meet_variable).value_or("")},
      place_of_container(own, spec.token, has_gpus()), paths.dir.string());
  return process;
}

}  // namespace

int run_step_rank(const std::string& dir, const Environment& own) {
  const auto rank = rank_of(AttemptPaths{dir}, own);
  if (rank) return become_step_rank(*rank);
  std::fprintf(stderr, "shardsweep-agent: %s\n", rank.error().what.c_str());
  return exit_not_started;
}

}  // namespace shardsweep::agent
