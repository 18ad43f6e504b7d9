// SPDX-License-Identifier: Apache-2.0
// What a rank finds in its environment, and what srun must not find in ours. Pure.
#pragma once

#include <shardsweep/protocol.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

using Environment = std::vector<std::string>;  ///< "NAME=value"

/// Position of a rank.
struct RankPlace {
  int rank = 0;
  int local_rank = 0;
  int local_world = 1;
  std::string node;
};

/// Devices for CUDA_VISIBLE_DEVICES: those that Slurm gave to the job, else one number per slot if
/// there are GPUs.
[[nodiscard]] std::vector<std::string> visible_devices(
    const Environment& own, int slots, bool has_gpus);

/// Variables of the daemon's shell that ranks on this machine may have (rank_variables.hpp);
/// secrets are left out.
[[nodiscard]] Environment passed_on(const Environment& shell);

/// `devices`: the node's, one for each slot; empty without GPUs.
[[nodiscard]] Environment rank_environment(const Environment& own, const AttemptSpec& spec,
    const RankPlace& place, const std::vector<std::string>& devices);

/// The value of a variable; none if it is not set.
[[nodiscard]] std::optional<std::string> value_in(
    const Environment& environment, std::string_view name);

/// Environment of a rank that is a task of a Slurm step: keeps variables that PMI and MPI have set.
[[nodiscard]] Environment step_rank_environment(const Environment& own, const AttemptSpec& spec,
    const RankPlace& place, const std::vector<std::string>& devices);

/// NCCL writes what it does into `log`: set-up, bootstrap and network, not each collective.
/// What the sweep or the site says about NCCL_DEBUG and its subsystems holds.
void ask_nccl(Environment& environment, const AttemptSpec& spec, const std::filesystem::path& log);

/// One srun for the allocation's life (notes in the .cpp): the whole argument vector.
[[nodiscard]] std::vector<std::string> srun_command(const std::string& srun,
    const AllocationSpec& spec, const std::vector<std::string>& node_command);
/// One srun for an attempt: `rank_command` is what each task runs.
[[nodiscard]] std::vector<std::string> step_command(const std::string& srun,
    const AttemptSpec& spec, const std::vector<std::string>& rank_command,
    bool by_hostfile = false);
/// Our environment without every variable that sets an option of srun.
[[nodiscard]] Environment srun_environment(const Environment& own);

/// `agent node …` as the lead starts it. `name` is empty under srun: each node knows its own.
[[nodiscard]] std::vector<std::string> node_command(
    const std::string& agent, const AllocationSpec& spec, const std::string& name);

}  // namespace shardsweep::agent
