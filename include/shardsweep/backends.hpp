// SPDX-License-Identifier: Apache-2.0
// The list of schedulers. To add a scheduler, implement Scheduler and add a line here
// (src/README.md).
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/policy.hpp>
#include <shardsweep/scheduler.hpp>
#include <shardsweep/sweep.hpp>

#include <filesystem>
#include <memory>

namespace shardsweep {

/// This machine as an allocation: the lead is a process of its own, which outlives the daemon.
/// `agent` is the absolute path of shardsweep-agent.
[[nodiscard]] std::unique_ptr<Scheduler> make_local_scheduler(const std::filesystem::path& agent);

/// Slurm by sbatch, squeue, sacct, scancel and scontrol on PATH. Nothing is asked of it before
/// the first call. `clock` outlives it.
[[nodiscard]] std::unique_ptr<Scheduler> make_slurm_cli_scheduler(
    const Policy& policy, const Clock& clock);

/// Slurm by slurmrestd.
[[nodiscard]] std::unique_ptr<Scheduler> make_slurm_rest_scheduler(
    const RestSettings& settings, const Policy& policy, const Clock& clock);

/// Checks that Slurm's commands exist and its controller answers within a few seconds; a fault says
/// which of the two is missing.
[[nodiscard]] Result<void> probe_slurm();

}  // namespace shardsweep
