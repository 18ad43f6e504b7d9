// SPDX-License-Identifier: Apache-2.0
// Lists that single commands read of the database, beside the views that all share
// (results.hpp). Each has one statement, in store/listings.cpp.
#pragma once

#include <cstdint>

namespace shardsweep {

/// Lists, each with its columns or its struct, and behind "by" its parameters.
enum class Listing : std::uint8_t {
  live_jobs,           ///< dir, of allocations that have not ended, but for those outside
  live_folders,        ///< dir, of attempts and allocations that have not ended
  exportable_sweeps,   ///< name, of sweeps with an outcome
  imported_tables,     ///< name, of sweeps that were a table and have no sweep file
  last_pause,          ///< detail of the last event `paused`; by the sweep's name
  node_ledger,         ///< all columns of the view, nodes that are not trusted first
  knowledge,           ///< name, text of each file that was not forgotten
  sweeps_with_var,     ///< name; by the var's name
  vars_of_trial,       ///< name, value; by the trial's slug
  ended_trials,        ///< EndedTrial; by the sweep's name
  bisect_runs,         ///< BisectRun; by the var, and the sweep's name
  replaced_runs,       ///< trial_id, speed: the run of a trial that `rerun` has replaced last
  selftest_trials,     ///< SelfTestTrial; by the sweep's name
  selftest_jobs,       ///< SelfTestJob, of what ran last; by the sweep's name
  measured_blocks,     ///< BlockRun; by the sweep's name
  measured_transfers,  ///< TransferRun; by the sweep's name
  trace_jobs,          ///< TracedJob
  trace_attempts,      ///< TracedAttempt; by a JSON array of trials
  pull_request,        ///< PullRequestRow; by a JSON array of trials
  // Rows for a bug report, by the sweep's id: the newest ones, the oldest of them first. Texts of
  // the sweep file and of the site are not among them: a database of an earlier version may have
  // secrets there.
  bundle_sweep,
  bundle_counts,
  bundle_incomplete_trials,
  bundle_allocations,
  bundle_attempts,
  bundle_nodes,
  bundle_events,
  bundle_job_folders,      ///< dir, of the newest
  bundle_attempt_folders,  ///< dir, of the newest that have not completed
  count
};

}  // namespace shardsweep
