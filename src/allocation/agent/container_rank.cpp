// SPDX-License-Identifier: Apache-2.0
#include "agent/container_rank.hpp"

#include "agent/trainer_rank.hpp"
#include "attempt/effective_environment.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <utility>

namespace shardsweep::agent {

ContainerPlace place_of_container(const Environment& own, const std::string& token, bool has_gpus) {
  return {.token = token,
      .job = value_in(own, "SLURM_JOB_ID").value_or(""),
      .node = value_in(own, "SLURMD_NODENAME").value_or(""),
      .has_gpus = has_gpus};
}

RankStart enter_container(RankProcess& process, const AttemptSpec& spec, const RankMeeting& meeting,
    const ContainerPlace& place, const std::string& attempt_dir) {
  if (!spec.container) return {process.argv, process.environment, process.directory};
  set_meeting_place(process.environment, meeting.meet);
  process.environment.push_back(fmt::format("{}={}", rank_variable, meeting.rank));
  const std::string& workdir = spec.container->workdir;
  RankStart inside{
      process.argv, process.environment, workdir.empty() ? process.directory.string() : workdir};
  // Those of the sweep are named by being here; their values are the rank's.
  ContainerSpec container = *spec.container;
  container.env.insert(spec.env.begin(), spec.env.end());
  for (const auto& name : spec.secrets)
    container.env.erase(name);
  container.env.merge(fake_variables(spec));
  RankStart telling = inside;
  if (meeting.rank == 0)
    telling.argv =
        telling_environment(inside.argv, AttemptPaths{attempt_dir}.environment().string());
  ContainerPlace hiding = place;
  hiding.secrets = spec.secrets;
  RankStart start = entered(container, telling, hiding);
  process.argv = std::move(start.argv);
  process.environment = std::move(start.environment);
  // A site's settings of its runtime may name the job.
  if (!place.job.empty() && !value_in(process.environment, "SLURM_JOB_ID"))
    process.environment.push_back("SLURM_JOB_ID=" + place.job);
  process.directory = attempt_dir;
  return inside;
}

}  // namespace shardsweep::agent
