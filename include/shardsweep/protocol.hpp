// SPDX-License-Identifier: Apache-2.0
// What daemon, lead and node agent say to each other: numbered JSON lines.
//
//   daemon ── to_lead ──►  lead  ── channel (stdin) ──►  node agent     one per node
//          ◄─ from_lead ──       ◄─ channel (stdout) ──
//
// to_lead and from_lead are append-only files of the allocation. A channel line is at most
// max_line bytes, newline included: longer ones are cut or mixed by srun. Bulk goes by file.
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/container.hpp>
#include <shardsweep/evidence.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/rule.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsweep {

inline constexpr std::size_t max_line = 1000;

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

// ---- daemon to lead -------------------------------------------------------------------------

/// Run this attempt after those assigned before it.
struct Assign {
  AttemptId attempt = 0;
  std::string trial;
  std::string dir;  ///< of the attempt: absolute, holds spec.json
  std::string nonce;
  std::string lane;  ///< lane_key: after an oom in it, larger micro-batches are not started
  std::int32_t micro_batch = 1;
  double predicted_s = 0;  ///< from start to result; 0: not known. An optional key.
  friend bool operator==(const Assign&, const Assign&) = default;
};
/// Do not start this attempt; answered by Revoked, or by nothing where it has started.
struct Revoke {
  AttemptId attempt = 0;
  friend bool operator==(const Revoke&, const Revoke&) = default;
};
/// End this attempt if it runs, do not start it if it does not.
struct Cancel {
  AttemptId attempt = 0;
  std::string why;
  friend bool operator==(const Cancel&, const Cancel&) = default;
};
/// Start nothing more; leave when the running attempt has ended.
struct Drain {
  friend bool operator==(const Drain&, const Drain&) = default;
};

using ToLeadBody = std::variant<Assign, Revoke, Cancel, Drain>;
struct ToLead {
  std::int64_t n = 0;  ///< counts from 1 in the file
  std::int64_t epoch =
      0;  ///< of the daemon's lease: lines of an older epoch than seen are ignored
  ToLeadBody body;
  friend bool operator==(const ToLead&, const ToLead&) = default;
};

// ---- lead to daemon -------------------------------------------------------------------------

/// The lead has won the claim.
struct Claimed {
  std::string token;
  std::string claim;  ///< the claim's nonce
  std::string host;
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;  ///< field 22 of /proc/PID/stat
  std::string job_id;          ///< SLURM_JOB_ID, or empty
  std::string node{};          ///< Slurm's name of the host, or empty: an optional key
  friend bool operator==(const Claimed&, const Claimed&) = default;
};
struct Beat {
  AttemptId attempt = 0;  ///< running now, 0: none
  std::string phase;
  std::int64_t step = 0;
  friend bool operator==(const Beat&, const Beat&) = default;
};
struct Started {
  AttemptId attempt = 0;
  std::string nonce;
  friend bool operator==(const Started&, const Started&) = default;
};
/// How the agent saw an attempt end: an observation with its first cause, not the final word.
struct Ended {
  AttemptId attempt = 0;
  std::string nonce;
  Outcome outcome = Outcome::lost;
  std::int32_t exit_code = -1;  ///< of the rank that failed first; -1: none
  std::int32_t signal = 0;
  std::string cause;  ///< first evidence, one line
  SaidBy source = SaidBy::nobody;
  std::int32_t leaked = 0;  ///< processes that outlived their ranks and were ended
  std::string pack;  ///< file name of the packed attempt, beside its folder; may be empty
  // Optional keys.
  std::string node{};      ///< where the first cause was seen; empty: on none in particular
  std::string also{};      ///< what contradicts the outcome, one line; empty: nothing
  Mark mark = Mark::none;  ///< of a result
  std::vector<std::string> nodes{};  ///< of a measured attempt on several, in its ranks' order
  std::int32_t start_error = 0;  ///< errno of a program that could not be started; 0: it was
  bool fragmented = false;  ///< out of memory with enough of it, in pieces: an optional key
  /// It was not started: its programs have changed, and this is their hash. An optional key.
  std::string found_code{};
  // Of its GPUs while train steps were timed, where the node agents have looked: the slowest
  // clock, what held it back in words, and the mean power. 0, empty: not told. Optional keys.
  double sm_clock_mhz = 0;
  double power_w = 0;
  std::string throttled{};
  friend bool operator==(const Ended&, const Ended&) = default;
};
struct Revoked {
  AttemptId attempt = 0;
  friend bool operator==(const Revoked&, const Revoked&) = default;
};
struct NodeSeen {
  std::string node;
  std::string host;
  std::int64_t pid = 0;
  std::string switches{};  ///< as in NodeReady: an optional key
  friend bool operator==(const NodeSeen&, const NodeSeen&) = default;
};
/// Something is wrong with a node, whoever suffers from it.
struct FoundOnNode {
  std::string node;
  EvidenceKind kind = EvidenceKind::dirty;
  std::string detail;  ///< one line
  friend bool operator==(const FoundOnNode&, const FoundOnNode&) = default;
};
/// Last line: the lead leaves.
struct Bye {
  std::string why;  ///< drained, idle, node lost, signal
  friend bool operator==(const Bye&, const Bye&) = default;
};

using FromLeadBody =
    std::variant<Claimed, Beat, Started, Ended, Revoked, NodeSeen, FoundOnNode, Bye>;
struct FromLead {
  std::int64_t n = 0;
  Timestamp t = 0;
  FromLeadBody body;
  friend bool operator==(const FromLead&, const FromLead&) = default;
};

// ---- lead and node agent --------------------------------------------------------------------

struct Launch {
  AttemptId attempt = 0;
  std::string dir;   ///< of the attempt; the rest is in its spec.json
  std::string meet;  ///< host:port where a trainer's ranks meet; empty: not asked for
  friend bool operator==(const Launch&, const Launch&) = default;
};
/// End the running attempt: SIGTERM, grace, SIGKILL to the whole tree.
struct EndAttempt {
  AttemptId attempt = 0;
  Outcome outcome = Outcome::cancelled;
  std::string why;
  bool cut_short = false;  ///< measured on the node of rank 0, as hopeless: an optional key
  friend bool operator==(const EndAttempt&, const EndAttempt&) = default;
};
/// For how long has nothing advanced on your node? Answered by NoProgress.
struct AskProgress {
  AttemptId attempt = 0;
  friend bool operator==(const AskProgress&, const AskProgress&) = default;
};
/// This node has that place among the allocation's nodes, whatever Slurm has said: so
/// neighbours in rank are neighbours in the network.
struct Place {
  std::string node;
  std::int32_t index = 0;
  friend bool operator==(const Place&, const Place&) = default;
};
/// Train steps are timed from now on, as the node of rank 0 has seen.
struct TimedSteps {
  AttemptId attempt = 0;
  friend bool operator==(const TimedSteps&, const TimedSteps&) = default;
};
struct LeadBeat {
  friend bool operator==(const LeadBeat&, const LeadBeat&) = default;
};
struct Quit {
  friend bool operator==(const Quit&, const Quit&) = default;
};
using ToNodeBody =
    std::variant<Launch, EndAttempt, AskProgress, Place, TimedSteps, LeadBeat, Quit>;

struct NodeReady {
  std::string node;
  std::string host;
  std::int64_t pid = 0;
  std::int32_t index = 0;  ///< among the allocation's nodes; an optional key
  std::string gpu{};       ///< the model of its GPUs; empty: not told. An optional key
  /// Switches or blocks above it, the top one first, as "core.leaf"; empty: not told. An
  /// optional key.
  std::string switches{};
  friend bool operator==(const NodeReady&, const NodeReady&) = default;
};
struct NodeBeat {
  AttemptId attempt = 0;
  std::string phase;
  std::int64_t step = 0;
  bool timed = false;  ///< its train steps are timed: an optional key
  friend bool operator==(const NodeBeat&, const NodeBeat&) = default;
};
struct NodeLaunched {
  AttemptId attempt = 0;
  friend bool operator==(const NodeLaunched&, const NodeLaunched&) = default;
};
/// The node of rank 0, which sees the records, takes the attempt for hung. Said again until the
/// lead has ended it or something has advanced.
struct Suspect {
  AttemptId attempt = 0;
  double limit_s = 0;
  std::string why;
  friend bool operator==(const Suspect&, const Suspect&) = default;
};
struct NoProgress {
  AttemptId attempt = 0;
  double still_s = 0;  ///< -1: not known here, no rank keeps a flight recorder
  friend bool operator==(const NoProgress&, const NoProgress&) = default;
};
/// This node's part of the attempt is over and waitpid has said ECHILD.
struct NodeEnded {
  AttemptId attempt = 0;
  Outcome outcome = Outcome::lost;
  std::int32_t exit_code = -1;
  std::int32_t signal = 0;
  Timestamp at = 0;  ///< of the first cause
  std::string cause;
  SaidBy source = SaidBy::nobody;
  std::int32_t leaked = 0;
  std::string also{};            ///< optional key, as in Ended
  Mark mark = Mark::none;        ///< the same
  std::int32_t start_error = 0;  ///< the same
  std::string node{};            ///< where it happened, if not where it is said: optional key
  bool cut_short = false;        ///< ended here, as it was hopeless: an optional key
  bool fragmented = false;       ///< as in Ended
  std::string found_code{};      ///< the same
  // Of its GPUs while train steps were timed (attempt/pace.hpp); 0: not told. Optional keys.
  double sm_clock_mhz = 0;
  double power_w = 0;
  std::int64_t held_back = 0;
  friend bool operator==(const NodeEnded&, const NodeEnded&) = default;
};
/// As FoundOnNode, of the node that says it.
struct NodeFinding {
  EvidenceKind kind = EvidenceKind::dirty;
  std::string detail;
  friend bool operator==(const NodeFinding&, const NodeFinding&) = default;
};
using FromNodeBody = std::variant<NodeReady, NodeBeat, NodeLaunched, Suspect, NoProgress,
                                  NodeEnded, NodeFinding>;
struct FromNode {
  std::string node;
  FromNodeBody body;
  friend bool operator==(const FromNode&, const FromNode&) = default;
};

// ---- lines (rundir/wire.cpp)

/// One line each, without the newline. Free text is cut so that a channel line fits max_line.
[[nodiscard]] std::string encode(const ToLead& message);
[[nodiscard]] std::string encode(const FromLead& message);
[[nodiscard]] std::string encode(const ToNodeBody& message);
[[nodiscard]] std::string encode(const FromNode& message);
[[nodiscard]] std::string encode(const AttemptSpec& spec);
[[nodiscard]] std::string encode(const AllocationSpec& spec);

/// Bounded and total: anything that is not such a line is a fault that quotes its beginning.
[[nodiscard]] Result<ToLead> decode_to_lead(std::string_view line);
[[nodiscard]] Result<FromLead> decode_from_lead(std::string_view line);
[[nodiscard]] Result<ToNodeBody> decode_to_node(std::string_view line);
[[nodiscard]] Result<FromNode> decode_from_node(std::string_view line);
[[nodiscard]] Result<AttemptSpec> decode_attempt_spec(std::string_view text);
[[nodiscard]] Result<AllocationSpec> decode_allocation_spec(std::string_view text);

}  // namespace shardsweep
