// SPDX-License-Identifier: Apache-2.0
// What an agent is told in files: spec.json of an attempt, and allocation.json.
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/container.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/rule.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace shardsweep {

using AttemptId = std::int64_t;

/// A trainer that writes no records: the node agent reads them from its log. What is known of
/// the run is compared with what the log says; 0: nothing is known.
struct TrainerRun {
  std::string log;  ///< whose log it prints; empty: `patterns` alone
  std::vector<std::string> patterns{};
  bool per_node = false;    ///< one process on each node starts the ranks itself
  std::string directory{};  ///< where it runs; empty: the attempt's folder
  std::int64_t warmup = 1;  ///< train steps before the timed ones
  std::int64_t steps = 1;   ///< timed ones
  std::int64_t dp = 0, tp = 0, pp = 0, cp = 0;
  std::int64_t seq_len = 0;
  std::int64_t tokens_per_step = 0;
  // Optional keys.
  std::int64_t vocab = 0;
  std::int64_t parameters = 0;           ///< of the whole model, about
  std::vector<std::string> unchecked{};  ///< truth checks that its user has switched off
  /// Ranks that its log speaks of, where a single process plays one of them; 0: the world.
  std::int32_t fake_world = 0;
  std::int32_t fake_rank = 0;
  friend bool operator==(const TrainerRun&, const TrainerRun&) = default;
};
template <>
inline constexpr auto described<TrainerRun> = std::tuple{
    Field{"log", &TrainerRun::log},
    Field{"patterns", &TrainerRun::patterns},
    Field{"per_node", &TrainerRun::per_node},
    Field{"directory", &TrainerRun::directory},
    Field{"warmup", &TrainerRun::warmup},
    Field{"steps", &TrainerRun::steps},
    Field{"dp", &TrainerRun::dp},
    Field{"tp", &TrainerRun::tp},
    Field{"pp", &TrainerRun::pp},
    Field{"cp", &TrainerRun::cp},
    Field{"seq_len", &TrainerRun::seq_len},
    Field{"tokens_per_step", &TrainerRun::tokens_per_step},
    Field{"vocab", &TrainerRun::vocab, Flag::optional},
    Field{"parameters", &TrainerRun::parameters, Flag::optional},
    Field{"unchecked", &TrainerRun::unchecked, Flag::optional},
    Field{"fake_world", &TrainerRun::fake_world, Flag::optional},
    Field{"fake_rank", &TrainerRun::fake_rank, Flag::optional},
};

/// Everything an agent must know to run one attempt: `spec.json` in the attempt's folder.
struct AttemptSpec {
  AttemptId attempt = 0;
  std::string trial;  ///< slug, for logs
  std::string nonce;  ///< names the attempt in its records
  std::string token;  ///< of the allocation
  std::int32_t world = 1;
  std::int32_t ranks_per_node = 1;
  std::vector<std::string>
      argv;  ///< complete but for RANK, WORLD_SIZE, LOCAL_RANK in the environment
  std::map<std::string, std::string> env;
  // limits without progress, seconds (Policy)
  double start_limit_s = 0;
  double rendezvous_limit_s = 0;
  double init_limit_s = 0;
  double first_step_limit_s = 0;
  double step_limit_s = 0;
  double teardown_limit_s = 0;
  double attempt_limit_s = 0;  ///< in all
  double grace_s = 0;
  std::int64_t keep_log_bytes = 0;
  // Where flight recorders are kept: a train step that nothing advances in for
  // max(hang_floor_s, hang_factor * the longest step so far) is a hang. Optional keys.
  double hang_floor_s = 5;
  double hang_factor = 2;
  double evidence_s = 1;  ///< for what the ranks tell of themselves before they are ended
  /// Of a node's CPUs, used by others on the average: more contaminates a measurement. 0: the
  /// host is shared, and nobody looks. An optional key.
  double others_cpu_limit = 0;
  std::vector<LogRule> rules{};  ///< the user's own; an optional key
  // Optional keys.
  double gpu_release_s = 0;  ///< for GPU memory to come back before it starts; 0: nobody looks
  std::int64_t gpu_slack_bytes = 0;  ///< that may be in use then
  double predicted_s = 0;            ///< from start to result; 0: not known
  double slow_limit_s = 0;  ///< over it an attempt that advances is a timeout; 0: never
  std::string group{};      ///< lane_key: its attempts take about as long as each other
  double learn_factor = 0;  ///< of limits from finished attempts of its group; 0: none
  double learn_floor_s = 0;
  double gdb_s = 0;  ///< for gdb to look at hung ranks; 0: it is not asked. An optional key
  /// Each rank writes NCCL's own words into a file; an optional key.
  bool nccl_debug = false;
  std::int64_t log_limit_bytes = 0;     ///< of what one rank prints; 0: none. An optional key
  std::int64_t file_limit_bytes = 0;    ///< of one file; 0: none. An optional key
  std::optional<TrainerRun> trainer{};  ///< none: the program writes records. An optional key
  std::optional<ContainerSpec> container{};  ///< none: ranks run on the host. An optional key
  double container_limit_s = 0;              ///< for a node to make it; an optional key
  /// PyTorch's allocator is to keep its memory in segments that grow; an optional key.
  bool expandable_segments = false;
  /// Programs by path, with the hashes that their content must have, and one hash for all of
  /// them. Optional keys.
  std::map<std::string, std::string> programs{};
  std::string code_hash{};
  // Optional keys: of an attempt that a node agent ends where it is hopeless.
  double give_up_above_ms = 0;  ///< a train step; 0: nobody ends it, or its runner does
  std::int32_t warmup = 0;      ///< train steps that are not timed
  std::int64_t tokens_per_step = 0;
  /// The runner may not tell its GPUs' clocks: node agents look at them. An optional key.
  bool watch_pace = false;

  friend bool operator==(const AttemptSpec&, const AttemptSpec&) = default;
};
template <>
inline constexpr auto described<AttemptSpec> = std::tuple{
    Field{"attempt", &AttemptSpec::attempt},
    Field{"trial", &AttemptSpec::trial},
    Field{"nonce", &AttemptSpec::nonce},
    Field{"token", &AttemptSpec::token},
    Field{"world", &AttemptSpec::world},
    Field{"ranks_per_node", &AttemptSpec::ranks_per_node},
    Field{"argv", &AttemptSpec::argv},
    Field{"env", &AttemptSpec::env},
    Field{"start_limit_s", &AttemptSpec::start_limit_s},
    Field{"rendezvous_limit_s", &AttemptSpec::rendezvous_limit_s},
    Field{"init_limit_s", &AttemptSpec::init_limit_s},
    Field{"first_step_limit_s", &AttemptSpec::first_step_limit_s},
    Field{"step_limit_s", &AttemptSpec::step_limit_s},
    Field{"teardown_limit_s", &AttemptSpec::teardown_limit_s},
    Field{"attempt_limit_s", &AttemptSpec::attempt_limit_s},
    Field{"grace_s", &AttemptSpec::grace_s},
    Field{"keep_log_bytes", &AttemptSpec::keep_log_bytes},
    Field{"hang_floor_s", &AttemptSpec::hang_floor_s, Flag::optional},
    Field{"hang_factor", &AttemptSpec::hang_factor, Flag::optional},
    Field{"evidence_s", &AttemptSpec::evidence_s, Flag::optional},
    Field{"others_cpu_limit", &AttemptSpec::others_cpu_limit, Flag::optional},
    Field{"rules", &AttemptSpec::rules, Flag::optional},
    Field{"gpu_release_s", &AttemptSpec::gpu_release_s, Flag::optional},
    Field{"gpu_slack_bytes", &AttemptSpec::gpu_slack_bytes, Flag::optional},
    Field{"predicted_s", &AttemptSpec::predicted_s, Flag::optional},
    Field{"slow_limit_s", &AttemptSpec::slow_limit_s, Flag::optional},
    Field{"group", &AttemptSpec::group, Flag::optional},
    Field{"learn_factor", &AttemptSpec::learn_factor, Flag::optional},
    Field{"learn_floor_s", &AttemptSpec::learn_floor_s, Flag::optional},
    Field{"gdb_s", &AttemptSpec::gdb_s, Flag::optional},
    Field{"nccl_debug", &AttemptSpec::nccl_debug, Flag::optional},
    Field{"log_limit_bytes", &AttemptSpec::log_limit_bytes, Flag::optional},
    Field{"file_limit_bytes", &AttemptSpec::file_limit_bytes, Flag::optional},
    Field{"trainer", &AttemptSpec::trainer, Flag::optional},
    Field{"container", &AttemptSpec::container, Flag::optional},
    Field{"container_limit_s", &AttemptSpec::container_limit_s, Flag::optional},
    Field{"expandable_segments", &AttemptSpec::expandable_segments, Flag::optional},
    Field{"programs", &AttemptSpec::programs, Flag::optional},
    Field{"code_hash", &AttemptSpec::code_hash, Flag::optional},
    Field{"give_up_above_ms", &AttemptSpec::give_up_above_ms, Flag::optional},
    Field{"warmup", &AttemptSpec::warmup, Flag::optional},
    Field{"tokens_per_step", &AttemptSpec::tokens_per_step, Flag::optional},
    Field{"watch_pace", &AttemptSpec::watch_pace, Flag::optional},
};

/// First line of an allocation's life, `allocation.json` in its folder.
struct AllocationSpec {
  std::string token;
  std::string job_name;
  std::int32_t nodes = 1;
  std::int32_t slots_per_node = 1;
  LaunchMode launch = LaunchMode::local;
  double beat_s = 0;
  double agent_lease_s = 0;
  double node_lease_s = 0;
  double file_beat_s = 0;
  double watch_interval_s = 0;
  double idle_limit_s = 0;  ///< a lead with nothing assigned for this long ends the allocation
  // Wall time: what cannot end before the allocation does is not started. Optional keys.
  double time_margin = 1.5;       ///< an attempt may take its prediction times this
  double grace_s = 5;             ///< and then so long to end
  double stop_before_end_s = 60;  ///< kept free for packing, the last words and the scheduler
  std::string gpu{};              ///< the model that every node must have; empty: any
  double agents_limit_s = 60;     ///< for all node agents to start

  friend bool operator==(const AllocationSpec&, const AllocationSpec&) = default;
};
template <>
inline constexpr auto described<AllocationSpec> = std::tuple{
    Field{"token", &AllocationSpec::token},
    Field{"job_name", &AllocationSpec::job_name},
    Field{"nodes", &AllocationSpec::nodes},
    Field{"slots_per_node", &AllocationSpec::slots_per_node},
    Field{"launch", &AllocationSpec::launch},
    Field{"beat_s", &AllocationSpec::beat_s},
    Field{"agent_lease_s", &AllocationSpec::agent_lease_s},
    Field{"node_lease_s", &AllocationSpec::node_lease_s},
    Field{"file_beat_s", &AllocationSpec::file_beat_s},
    Field{"watch_interval_s", &AllocationSpec::watch_interval_s},
    Field{"idle_limit_s", &AllocationSpec::idle_limit_s},
    Field{"time_margin", &AllocationSpec::time_margin, Flag::optional},
    Field{"grace_s", &AllocationSpec::grace_s, Flag::optional},
    Field{"stop_before_end_s", &AllocationSpec::stop_before_end_s, Flag::optional},
    Field{"gpu", &AllocationSpec::gpu, Flag::optional},
    Field{"agents_limit_s", &AllocationSpec::agents_limit_s, Flag::optional},
};

}  // namespace shardsweep
