// SPDX-License-Identifier: Apache-2.0
// All that a report says about sweeps, read at one moment.
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

struct ReportedSweep {
  std::string sweep;
  Backend backend = Backend::none;
  std::string cluster;
  std::string runner;
  std::string runner_version;
  std::int64_t revision = 0;
  Timestamp submitted_at = 0;
  std::string resolved;  ///< text of the sweep file, or of an imported table
  std::string job_template;
};
SHARDSWEEP_DESCRIBE(ReportedSweep, sweep, backend, cluster, runner, runner_version, revision,
    submitted_at, resolved, job_template);

/// An attempt that has started.
struct ReportedAttempt {
  std::int64_t allocation = 0;
  std::string outcome;  ///< outcome, or the state if it has not ended
  Timestamp started_at = 0;
  Timestamp ended_at = 0;  ///< 0: not yet
};
SHARDSWEEP_DESCRIBE(ReportedAttempt, allocation, outcome, started_at, ended_at);

/// An allocation that was claimed.
struct ReportedAllocation {
  std::int64_t id = 0;
  std::string job_name;
  std::int64_t nodes = 0;
  std::int64_t slots_per_node = 0;
  Timestamp claimed_at = 0;
  Timestamp ended_at = 0;  ///< 0: not yet
  Timestamp last_beat = 0;
  bool imported = false;
};
SHARDSWEEP_DESCRIBE(ReportedAllocation, id, job_name, nodes, slots_per_node, claimed_at, ended_at,
    last_beat, imported);

/// A selected trial, with measurement and evidence. Maps are `key=value` with `;` between them.
struct ReportedTrial {
  std::int64_t trial_id = 0;
  std::string sweep;
  std::string trial;
  std::string layout;
  std::string model;
  std::int64_t seq_len = 0;
  std::int64_t nodes = 0;  ///< 0: a world smaller than a node
  std::int64_t gpus = 0;
  std::string dtype;
  std::string cluster;
  std::string vars;               ///< `key=value` with blanks between; of an imported table nothing
  std::int64_t global_batch = 0;  ///< samples per train step
  std::string state;
  std::string outcome;
  std::string mark;
  std::string cause;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> train_step_ms;
  std::optional<double> train_step_ms_spread;
  std::optional<double> mfu;
  std::optional<std::int64_t> peak_memory_bytes;
  std::optional<double> predicted_tokens_per_s_per_gpu;
  std::optional<std::int64_t> predicted_memory_bytes;
  std::optional<double> predicted_attempt_s;
  std::string runner;
  std::string runner_version;
  std::string code_hash;
  std::optional<Timestamp> started_at;
  Timestamp ended_at = 0;       ///< 0: not yet
  std::int64_t remeasured = 0;  ///< number of the remeasurement; 0: a run of the sweep itself
  std::int64_t n_params = 0;
  std::optional<double> power_w;
  std::optional<double> gpu_seconds;  ///< GPU time of all its attempts
  std::string hosts;
  std::string software;        ///< map
  std::string phases;          ///< map, in ms
  std::string waits;           ///< map, in ms
  std::string memory_classes;  ///< map, in bytes
  std::string evidence;
  std::string files;          ///< folder of its last attempt
  ModelSpec shape{};          ///< numbers of its model, without a name; 0: not known
  std::vector<Value> axes{};  ///< values of axes_of_trials(); NULL: not known
};
SHARDSWEEP_DESCRIBE(ReportedTrial, trial_id, sweep, trial, layout, model, seq_len, nodes, gpus,
    dtype, cluster, vars, global_batch, state, outcome, mark, cause, tokens_per_s_per_gpu,
    train_step_ms, train_step_ms_spread, mfu, peak_memory_bytes, predicted_tokens_per_s_per_gpu,
    predicted_memory_bytes, predicted_attempt_s, runner, runner_version, code_hash, started_at,
    ended_at, remeasured, n_params, power_w, gpu_seconds, hosts, software, phases, waits,
    memory_classes, evidence, files);

/// The axes that are no fields of a trial of their own.
[[nodiscard]] inline const std::vector<const AxisInfo*>& axes_of_trials() {
  static const auto beside = [] {
    std::vector<const AxisInfo*> found;
    for (const AxisInfo& axis : axes()) {
      bool is_field = false;
      visit_fields<ReportedTrial>(
          [&](const auto& field) { is_field = is_field || field.name == axis.name; });
      if (!is_field) found.push_back(&axis);
    }
    return found;
  }();
  return beside;
}

/// Sources of a report's numbers.
struct ReportSources {
  std::vector<ReportedSweep> sweeps;
  std::vector<ReportedAllocation> allocations;  ///< sorted by time
};

struct ReportFacts : ReportSources {
  std::vector<ReportedTrial> trials;
  std::vector<ReportedAttempt> attempts;  ///< sorted by allocation and time
  // Tables as a report shows them.
  Table controls;
  Table checks;     ///< checks of nodes, before an allocation's first attempt
  Table side_runs;  ///< side runs with the folders of their attempts
  Table nodes;      ///< nodes that are not trusted, or have evidence against them
  Table bounds;     ///< bounds with which searches have stopped, and how many trials each has
                    ///< spared
};

}  // namespace shardsweep
