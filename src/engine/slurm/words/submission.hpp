// SPDX-License-Identifier: Apache-2.0
// What an answer of sbatch means. sbatch is not idempotent and has no request id: "timed out"
// can mean that the job is in the queue, so there are more than two answers. Judged by exit
// code and standard output; standard error alone proves nothing (sbatch prints warnings, and
// after its own retries an error beside the id of a job that it has submitted).
#pragma once

#include <shardsweep/scheduler.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

/// `exit_code` is -1 if sbatch was ended by a signal or at its deadline.
[[nodiscard]] SchedulerEvent read_submission(
    const std::string& token, int exit_code, std::string_view out, std::string_view err);

/// Slurm has no such nodes, or not so many.
[[nodiscard]] bool lacks_nodes(std::string_view said);

/// Reads an answer without an id by its words. Unknown: the answer may have been lost; deferred: a
/// limit is reached; empty: they tell neither.
[[nodiscard]] std::optional<SchedulerEvent> read_failure(
    const std::string& token, std::string_view said);

/// The command that submits `script`; the options that the tool owns stand in it, so that no
/// template can lose them.
[[nodiscard]] std::vector<std::string> submission_command(const AllocationRequest& request);

/// Command that submits elements of one array, whose script is `script`.
[[nodiscard]] std::vector<std::string> array_command(
    const std::vector<AllocationRequest>& elements, const std::filesystem::path& script);
/// Event for one element from the answer.
[[nodiscard]] SchedulerEvent read_array_submission(
    const std::string& token, int exit_code, std::string_view out, std::string_view err);

/// The environment for Slurm's commands, from `own` ("NAME=value"): what a login shell sets to
/// change their options or output is left out. A job inherits what sbatch has, so only what
/// every process has is kept; the site file adds the rest by name.
[[nodiscard]] std::vector<std::string> command_environment(const std::vector<std::string>& own);

}  // namespace shardsweep::slurm
