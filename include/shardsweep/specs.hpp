// SPDX-License-Identifier: Apache-2.0
// What an agent is told in files: spec.json of an attempt, and allocation.json.
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/cause.hpp>
#include <shardsweep/check.hpp>
#include <shardsweep/container.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/policy.hpp>
#include <shardsweep/side_run.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

using AttemptId = std::int64_t;

/// A trainer that writes no records: the node agent reads them from its log. Known facts of the run
/// are compared with the log; 0: not known.
struct TrainerRun {
  std::string log;  ///< trainer whose log it prints; empty: `patterns` alone
  std::vector<std::string> patterns{};
  bool per_node = false;    ///< one process on each node starts the ranks itself
  std::string directory{};  ///< working folder; empty: the attempt's folder
  std::int64_t warmup = 1;  ///< train steps before the timed ones
  std::int64_t steps = 1;   ///< timed ones
  std::int64_t dp = 0, tp = 0, pp = 0, cp = 0;
  std::int64_t seq_len = 0;
  std::int64_t tokens_per_step = 0;
  // Optional keys.
  std::int64_t vocab = 0;
  std::int64_t parameters = 0;           ///< rough count for the whole model
  std::vector<std::string> unchecked{};  ///< truth checks that its user has switched off
  /// Axes that its command names, with their values as axis_text() writes them: the log's values
  /// are compared with these.
  std::map<std::string, std::string> axes{};
  /// Ranks that its log speaks of, if a single process plays one of them; 0: the world.
  std::int32_t fake_world = 0;
  std::int32_t fake_rank = 0;
  friend bool operator==(const TrainerRun&, const TrainerRun&) = default;
};
template <>
inline constexpr auto described<TrainerRun> = Entries{
    SHARDSWEEP_FIELDS(TrainerRun, log, patterns, per_node, directory, warmup, steps, dp, tp, pp, cp,
        seq_len, tokens_per_step),
    SHARDSWEEP_FLAGGED_FIELDS(
        Flag::optional, TrainerRun, vocab, parameters, unchecked, axes, fake_world, fake_rank),
};

/// Limits of an attempt whose user has set none: hangs alone.
[[nodiscard]] constexpr AttemptLimits nothing_limited() {
  AttemptLimits limits;
  visit_values(limits, [](const auto& field, auto& value) {
    if (field.name != "hang_floor_s" && field.name != "hang_factor" && field.name != "evidence_s")
      value = 0;
  });
  return limits;
}

/// Facts that an agent needs to run one attempt: `spec.json` in the attempt's folder.
struct AttemptSpec {
  AttemptId attempt = 0;
  std::string trial;  ///< slug, for logs
  std::string nonce;  ///< names the attempt in its records
  std::string token;  ///< token of the allocation
  std::int32_t world = 1;
  std::int32_t ranks_per_node = 1;
  std::vector<std::string>
      argv;  ///< complete but for RANK, WORLD_SIZE, LOCAL_RANK in the environment
  std::map<std::string, std::string> env;
  /// Variables whose values stand in `secrets_file` alone (secrets_file.hpp). Optional keys.
  std::vector<std::string> secrets{};
  std::string secrets_file{};
  /// Limits; those that a spec of an earlier daemon does not name are not checked.
  AttemptLimits limits = nothing_limited();
  std::vector<Cause> rules{};  ///< the user's own; an optional key
  // Optional keys.
  double predicted_s = 0;   ///< time from start to result; 0: not known
  double slow_limit_s = 0;  ///< time after which an attempt that advances is a timeout; 0: never
  std::string group{};      ///< lane_key: its attempts take about as long as each other
  /// Each rank writes NCCL's own words into a file; an optional key.
  bool nccl_debug = false;
  std::optional<TrainerRun>
      trainer{};  ///< trainer; none: the program writes records. An optional key
  std::optional<ContainerSpec>
      container{};  ///< container; none: ranks run on the host. An optional key
  /// PyTorch's allocator is to keep its memory in segments that grow; an optional key.
  bool expandable_segments = false;
  /// Programs by path, with the hashes that their content must have, and one hash for all of
  /// them. Optional keys.
  std::map<std::string, std::string> programs{};
  std::string code_hash{};
  // Optional keys: of an attempt that a node agent ends if it is hopeless.
  double give_up_above_ms = 0;  ///< a train step; 0: nobody ends it, or its runner does
  std::int32_t warmup = 0;      ///< train steps that are not timed
  std::int64_t tokens_per_step = 0;
  /// The runner may not tell its GPUs' clocks: node agents look at them. An optional key.
  bool watch_pace = false;
  /// True for a run that is no measurement: tools may slow it down. An optional key.
  SideRun side = SideRun::none;

  friend bool operator==(const AttemptSpec&, const AttemptSpec&) = default;
};
template <>
inline constexpr auto described<AttemptSpec> = Entries{
    SHARDSWEEP_FIELDS(AttemptSpec, attempt, trial, nonce, token, world, ranks_per_node, argv, env),
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, AttemptSpec, secrets, secrets_file),
    Part{&AttemptSpec::limits},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, AttemptSpec, rules, predicted_s, slow_limit_s, group,
        nccl_debug, trainer, container, expandable_segments, programs, code_hash, give_up_above_ms,
        warmup, tokens_per_step, watch_pace, side),
};

/// First line of an allocation's life, `allocation.json` in its folder.
struct AllocationSpec {
  std::string token;
  std::string job_name;
  std::int32_t nodes = 1;
  std::int32_t slots_per_node = 1;
  LaunchMode launch = LaunchMode::local;
  LaneLimits limits{.agents_limit_s = 60};
  // Optional keys.
  double grace_s = 5;                 ///< time for each attempt to end when its time is up
  std::string gpu{};                  ///< the model that every node must have; empty: any
  std::optional<CheckOrder> check{};  ///< check of its nodes; none: they are not checked

  friend bool operator==(const AllocationSpec&, const AllocationSpec&) = default;
};
template <>
inline constexpr auto described<AllocationSpec> = Entries{
    SHARDSWEEP_FIELDS(AllocationSpec, token, job_name, nodes, slots_per_node, launch),
    Part{&AllocationSpec::limits},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, AllocationSpec, grace_s, gpu, check),
};

}  // namespace shardsweep
