// SPDX-License-Identifier: Apache-2.0
// slurmrestd's JSON, whose shape changes with its version: states are a word up to v0.0.39 and
// a list of words after it, numbers are numbers or {set, infinite, number}, an environment is a
// map or a list. Tested with v0.0.38 (Slurm 22.05) and v0.0.42 (24.11).
#pragma once

#include "slurm/words/job.hpp"

#include <shardsweep/result.hpp>
#include <shardsweep/scheduler.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

struct RestApi {
  int version = 0;          ///< 38 of v0.0.38
  bool accounting = false;  ///< /slurmdb is served too

  [[nodiscard]] std::string path(std::string_view rest) const;     ///< /slurm/v0.0.38/…
  [[nodiscard]] std::string db_path(std::string_view rest) const;  ///< /slurmdb/v0.0.38/…
};

/// The newest version that both sides know, from the server's OpenAPI document.
[[nodiscard]] Result<RestApi> choose_api(std::string_view openapi);

/// Body of a submission. slurmrestd does not read #SBATCH lines: they are translated, and one
/// that has no translation is a fault that names it.
[[nodiscard]] Result<std::string> submission_body(const AllocationRequest& request,
    std::string_view script, const RestApi& api, const std::vector<std::string>& environment,
    Timestamp now);

/// Body of the update that lets a held job start: not a job within a map, as of a submission.
inline constexpr std::string_view release_body = R"({"hold":false})";

/// Why slurmrestd has not done what it was asked for; empty if it has. A field that it
/// ignores is a refusal.
[[nodiscard]] std::string why_refused(long status, std::string_view body);

/// The id of the job that the answer to a submission names; "" for none.
[[nodiscard]] std::string submitted_job(std::string_view body);

/// Event for the answer to a submission. A job that lacks a field of ours is refused: it has an id
/// all the same and is to be cancelled.
[[nodiscard]] SchedulerEvent read_rest_submission(
    const std::string& token, long status, std::string_view body);

/// The jobs of these names; a document of another shape is a fault.
[[nodiscard]] Result<std::vector<Job>> read_jobs(
    std::string_view body, const std::vector<std::string>& names);
[[nodiscard]] Result<std::vector<Job>> read_accounted_jobs(
    std::string_view body, const std::vector<std::string>& names);

/// All partitions with their sizes.
[[nodiscard]] Result<void> read_rest_partitions(std::string_view body, SiteFacts& into);
/// The part of a job in a list that read_rest_waiting reads; "": the job waits for nothing.
[[nodiscard]] std::string waiting_job(std::string_view element);
/// How many jobs of others wait for nodes, by partition.
[[nodiscard]] Result<void> read_rest_waiting(
    std::string_view body, std::int64_t own_uid, SiteFacts& into);

}  // namespace shardsweep::slurm
