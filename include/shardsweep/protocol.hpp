// SPDX-License-Identifier: Apache-2.0
// What daemon, lead and node agent say to each other: numbered JSON lines.
//
//   daemon ── to_lead ──►  lead  ── channel (stdin) ──►  node agent     one per node
//          ◄─ from_lead ──       ◄─ channel (stdout) ──
//
// to_lead and from_lead are append-only files of the allocation. A channel line is at most
// max_line bytes, newline included: longer ones are cut or mixed by srun. Bulk goes by file.
#pragma once

#include <shardsweep/check.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/ending.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/specs.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsweep {

inline constexpr std::size_t max_line = 1000;

// ---- daemon to lead -------------------------------------------------------------------------

/// Run this attempt after those assigned before it.
struct Assign {
  AttemptId attempt = 0;
  std::string trial;
  std::string dir;  ///< folder of the attempt: absolute, holds spec.json
  std::string nonce;
  std::string lane;  ///< lane_key: after an oom in it, larger micro-batches are not started
  std::int32_t micro_batch = 1;
  double predicted_s = 0;  ///< time from start to result; 0: not known. An optional key.
  friend bool operator==(const Assign&, const Assign&) = default;
};
template <>
inline constexpr auto described<Assign> = Entries{
    SHARDSWEEP_FIELDS(Assign, attempt, trial, dir, nonce, lane, micro_batch),
    Field{"predicted_s", &Assign::predicted_s, Flag::optional},
};
/// Do not start this attempt; answered by Revoked, or by nothing if it has started.
struct Revoke {
  AttemptId attempt = 0;
  friend bool operator==(const Revoke&, const Revoke&) = default;
};
template <>
inline constexpr auto described<Revoke> = Entries{
    Field{"attempt", &Revoke::attempt},
};
/// End this attempt if it runs, do not start it if it does not.
struct Cancel {
  AttemptId attempt = 0;
  std::string why;
  friend bool operator==(const Cancel&, const Cancel&) = default;
};
SHARDSWEEP_DESCRIBE(Cancel, attempt, why);
/// Start nothing more; leave when the running attempt has ended.
struct Drain {
  friend bool operator==(const Drain&, const Drain&) = default;
};

using ToLeadBody = std::variant<Assign, Revoke, Cancel, Drain>;
struct ToLead {
  std::int64_t n = 0;      ///< counts from 1 in the file
  std::int64_t epoch = 0;  ///< epoch of the daemon's lease: lines of an older epoch than seen are
                           ///< ignored
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
template <>
inline constexpr auto described<Claimed> = Entries{
    SHARDSWEEP_FIELDS(Claimed, token, claim, host, pid, pid_start, job_id),
    Field{"node", &Claimed::node, Flag::optional},
};
struct Beat {
  AttemptId attempt = 0;  ///< running now, 0: none
  std::string phase;
  std::int64_t step = 0;
  friend bool operator==(const Beat&, const Beat&) = default;
};
SHARDSWEEP_DESCRIBE(Beat, attempt, phase, step);
struct Started {
  AttemptId attempt = 0;
  std::string nonce;
  friend bool operator==(const Started&, const Started&) = default;
};
SHARDSWEEP_DESCRIBE(Started, attempt, nonce);
/// How the agent saw an attempt end: an observation with its first cause, not the final word.
struct Ended {
  AttemptId attempt = 0;
  std::string nonce;
  Ending ending;
  std::string pack;  ///< file name of the packed attempt, beside its folder; may be empty
  // Optional keys.
  std::vector<std::string> nodes{};  ///< nodes of a measured attempt on several, in its ranks'
                                     ///< order
  // Pace of its GPUs while train steps were timed, if node agents looked. It has the slowest clock,
  // what held it back in words, and the mean power. 0, empty: not told. Optional keys.
  double sm_clock_mhz = 0;
  double power_w = 0;
  std::string throttled{};
  friend bool operator==(const Ended&, const Ended&) = default;
};
template <>
inline constexpr auto described<Ended> = Entries{
    SHARDSWEEP_FIELDS(Ended, attempt, nonce),
    Part{&Ended::ending},
    Field{"pack", &Ended::pack},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, Ended, nodes, sm_clock_mhz, power_w, throttled),
};
struct Revoked {
  AttemptId attempt = 0;
  friend bool operator==(const Revoked&, const Revoked&) = default;
};
template <>
inline constexpr auto described<Revoked> = Entries{
    Field{"attempt", &Revoked::attempt},
};
struct NodeSeen {
  std::string node;
  std::string host;
  std::int64_t pid = 0;
  std::string switches{};  ///< see NodeReady: an optional key
  friend bool operator==(const NodeSeen&, const NodeSeen&) = default;
};
template <>
inline constexpr auto described<NodeSeen> = Entries{
    SHARDSWEEP_FIELDS(NodeSeen, node, host, pid),
    Field{"switches", &NodeSeen::switches, Flag::optional},
};
/// Fault of a node, whichever attempt suffers from it.
struct FoundOnNode {
  std::string node;
  EvidenceKind kind = EvidenceKind::dirty;
  std::string detail;  ///< one line
  friend bool operator==(const FoundOnNode&, const FoundOnNode&) = default;
};
SHARDSWEEP_DESCRIBE(FoundOnNode, node, kind, detail);
/// Facts that a node has found about itself, and its verdict. A node that is to blame is named by a
/// FoundOnNode besides.
struct Checked {
  std::string node;
  NodeFacts facts;
  std::string detail{};  ///< why it has failed; empty: it has not. An optional key
  bool blamed = false;   ///< the node, not its site: an optional key
  friend bool operator==(const Checked&, const Checked&) = default;
};
template <>
inline constexpr auto described<Checked> = Entries{
    Field{"node", &Checked::node},
    Part{&Checked::facts},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, Checked, detail, blamed),
};
/// Last line: the lead leaves.
struct Bye {
  std::string why;  ///< drained, idle, node lost, signal
  friend bool operator==(const Bye&, const Bye&) = default;
};
template <>
inline constexpr auto described<Bye> = Entries{
    Field{"why", &Bye::why},
};

using FromLeadBody =
    std::variant<Claimed, Beat, Started, Ended, Revoked, NodeSeen, FoundOnNode, Checked, Bye>;
struct FromLead {
  std::int64_t n = 0;
  Timestamp t = 0;
  FromLeadBody body;
  friend bool operator==(const FromLead&, const FromLead&) = default;
};

// ---- lead and node agent --------------------------------------------------------------------

struct Launch {
  AttemptId attempt = 0;
  std::string dir;   ///< folder of the attempt; the rest is in its spec.json
  std::string meet;  ///< host:port where a trainer's ranks meet; empty: not asked for
  friend bool operator==(const Launch&, const Launch&) = default;
};
template <>
inline constexpr auto described<Launch> = Entries{
    SHARDSWEEP_FIELDS(Launch, attempt, dir),
    Field{"meet", &Launch::meet, Flag::optional},
};
/// End the running attempt: SIGTERM, grace, SIGKILL to the whole tree.
struct EndAttempt {
  AttemptId attempt = 0;
  Outcome outcome = Outcome::cancelled;
  std::string why;
  bool cut_short = false;  ///< measured on the node of rank 0, as hopeless: an optional key
  friend bool operator==(const EndAttempt&, const EndAttempt&) = default;
};
template <>
inline constexpr auto described<EndAttempt> = Entries{
    SHARDSWEEP_FIELDS(EndAttempt, attempt, outcome, why),
    Field{"cut_short", &EndAttempt::cut_short, Flag::optional},
};
/// Asks how long nothing has advanced on the node. Answered by NoProgress.
struct AskProgress {
  AttemptId attempt = 0;
  friend bool operator==(const AskProgress&, const AskProgress&) = default;
};
template <>
inline constexpr auto described<AskProgress> = Entries{
    Field{"attempt", &AskProgress::attempt},
};
/// Place of this node among the allocation's nodes, whatever Slurm has said: neighbours in rank are
/// then neighbours in the network.
struct Place {
  std::string node;
  std::int32_t index = 0;
  friend bool operator==(const Place&, const Place&) = default;
};
SHARDSWEEP_DESCRIBE(Place, node, index);
/// Train steps are timed from now on, as the node of rank 0 has seen.
struct TimedSteps {
  AttemptId attempt = 0;
  friend bool operator==(const TimedSteps&, const TimedSteps&) = default;
};
template <>
inline constexpr auto described<TimedSteps> = Entries{
    Field{"attempt", &TimedSteps::attempt},
};
/// Check your node, as the allocation's folder says. Answered by NodeChecked.
struct CheckNode {
  std::string dir;  ///< folder of the allocation
  CheckTime time = CheckTime::before;
  std::int32_t round = 0;  ///< round of `pairs`: that file of the allocation. An optional key
  friend bool operator==(const CheckNode&, const CheckNode&) = default;
};
template <>
inline constexpr auto described<CheckNode> = Entries{
    SHARDSWEEP_FIELDS(CheckNode, dir, time),
    Field{"round", &CheckNode::round, Flag::optional},
};
struct LeadBeat {
  friend bool operator==(const LeadBeat&, const LeadBeat&) = default;
};
struct Quit {
  friend bool operator==(const Quit&, const Quit&) = default;
};
using ToNodeBody =
    std::variant<Launch, EndAttempt, AskProgress, Place, TimedSteps, CheckNode, LeadBeat, Quit>;

struct NodeReady {
  std::string node;
  std::string host;
  std::int64_t pid = 0;
  std::int32_t index = 0;  ///< place among the allocation's nodes; an optional key
  std::string gpu{};       ///< the model of its GPUs; empty: not told. An optional key
  /// Switches or blocks above it, the top one first, as "core.leaf"; empty: not told. An
  /// optional key.
  std::string switches{};
  friend bool operator==(const NodeReady&, const NodeReady&) = default;
};
template <>
inline constexpr auto described<NodeReady> = Entries{
    SHARDSWEEP_FIELDS(NodeReady, node, host, pid),
    SHARDSWEEP_FLAGGED_FIELDS(Flag::optional, NodeReady, index, gpu, switches),
};
struct NodeBeat {
  AttemptId attempt = 0;
  std::string phase;
  std::int64_t step = 0;
  bool timed = false;  ///< train steps are being timed: an optional key
  friend bool operator==(const NodeBeat&, const NodeBeat&) = default;
};
template <>
inline constexpr auto described<NodeBeat> = Entries{
    SHARDSWEEP_FIELDS(NodeBeat, attempt, phase, step),
    Field{"timed", &NodeBeat::timed, Flag::optional},
};
struct NodeLaunched {
  AttemptId attempt = 0;
  friend bool operator==(const NodeLaunched&, const NodeLaunched&) = default;
};
template <>
inline constexpr auto described<NodeLaunched> = Entries{
    Field{"attempt", &NodeLaunched::attempt},
};
/// The node of rank 0, which sees the records, takes the attempt for hung. Said again until the
/// lead has ended it or something has advanced.
struct Suspect {
  AttemptId attempt = 0;
  double limit_s = 0;
  std::string why;
  friend bool operator==(const Suspect&, const Suspect&) = default;
};
SHARDSWEEP_DESCRIBE(Suspect, attempt, limit_s, why);
struct NoProgress {
  AttemptId attempt = 0;
  double still_s = 0;  ///< -1: not known here, no rank keeps a flight recorder
  friend bool operator==(const NoProgress&, const NoProgress&) = default;
};
SHARDSWEEP_DESCRIBE(NoProgress, attempt, still_s);
/// This node's part of the attempt is over and waitpid has said ECHILD.
struct NodeEnded {
  AttemptId attempt = 0;
  Ending ending;           ///< `node`: where it happened, if not where it is said
  Timestamp at = 0;        ///< time of the first cause
  bool cut_short = false;  ///< ended here, as it was hopeless: an optional key
  // Pace of its GPUs while train steps were timed (attempt/gpu_use.hpp); 0: not told. Optional
  // keys.
  double sm_clock_mhz = 0;
  double power_w = 0;
  std::int64_t held_back = 0;
  friend bool operator==(const NodeEnded&, const NodeEnded&) = default;
};
template <>
inline constexpr auto described<NodeEnded> = Entries{
    Field{"attempt", &NodeEnded::attempt},
    Part{&NodeEnded::ending},
    Field{"at", &NodeEnded::at},
    SHARDSWEEP_FLAGGED_FIELDS(
        Flag::optional, NodeEnded, cut_short, sm_clock_mhz, power_w, held_back),
};
/// Fault of the node that sends it: see FoundOnNode.
struct NodeFinding {
  EvidenceKind kind = EvidenceKind::dirty;
  std::string detail;
  friend bool operator==(const NodeFinding&, const NodeFinding&) = default;
};
SHARDSWEEP_DESCRIBE(NodeFinding, kind, detail);
struct NodeChecked {
  CheckTime time = CheckTime::before;
  std::int32_t round = 0;  ///< see CheckNode: an optional key
  NodeFacts facts;
  friend bool operator==(const NodeChecked&, const NodeChecked&) = default;
};
template <>
inline constexpr auto described<NodeChecked> = Entries{
    Field{"time", &NodeChecked::time},
    Field{"round", &NodeChecked::round, Flag::optional},
    Part{&NodeChecked::facts},
};
using FromNodeBody = std::variant<NodeReady, NodeBeat, NodeLaunched, Suspect, NoProgress, NodeEnded,
    NodeFinding, NodeChecked>;
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
