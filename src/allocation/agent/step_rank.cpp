// SPDX-License-Identifier: Apache-2.0
#include "agent/step_rank.hpp"

#include "agent/container_rank.hpp"
#include "agent/environment_reading.hpp"
#include "agent/side_run.hpp"
#include "agent/spawn.hpp"
#include "agent/trainer_rank.hpp"
#include "machine/processes.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/secrets_file.hpp>

#include <charconv>
#include <cstdio>

namespace shardsweep::agent {
namespace {

constexpr int exit_not_started = 127;

Result<int> number_in(const Environment& own, const std::string& name) {
  const std::string text = value_in(own, name).value_or("");
  int value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0)
    return fault(FaultKind::invalid_input, "no number in " + name + ": not a task of a step");
  return value;
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
