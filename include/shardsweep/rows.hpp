// SPDX-License-Identifier: Apache-2.0
// The rows of everything that is not over, as the database stores them. `described<Row>` lists
// the columns of each.
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/ending.hpp>
#include <shardsweep/evidence.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/scheduler.hpp>
#include <shardsweep/side_run.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

using SweepId = std::int64_t;
using TrialId = std::int64_t;
using AllocationId = std::int64_t;

/// Stored text: active, paused, cancelled.
enum class SweepState : std::uint8_t { active, paused, cancelled };
SHARDSWEEP_WORDS(SweepState, "active", "paused", "cancelled");

struct SweepRow {
  SweepId id = 0;
  std::string name;
  SweepState state = SweepState::active;
  Backend backend = Backend::none;  ///< chosen at submission
  std::string resolved;             ///< complete sweep file as explain_sweep() writes it
  std::string site;                 ///< complete site file as explain_site() writes it; empty: none
  std::string job_template;         ///< text of the job script's template; empty: none is needed
  // Allocations in a row that ended before they had started anything.
  std::int32_t failed_starts = 0;
  std::int32_t failed_nodes = 0;  ///< part of `failed_starts` that a node took with it, counted
                                  ///< apart
  std::string held;               ///< why nothing more is asked for; empty: nothing holds it
  // Measuring again (remeasure.hpp).
  Timestamp remeasure_at = 0;   ///< time at which it is due; 0: never
  std::int32_t remeasured = 0;  ///< how often it was done
  bool remeasuring = false;     ///< the next time has begun
  /// The snapshot or the image's digest of the last time; empty: the sweep's own snapshot.
  std::string remeasured_was{};
  std::string remeasured_is{};  ///< snapshot or digest of the time that has begun
  Timestamp submitted_at = 0;   ///< the last time
};
template <>
inline constexpr auto described<SweepRow> = Entries{
    Field{"id", &SweepRow::id, Flag::key},
    Field{"name", &SweepRow::name, Flag::read},
    Field{"state", &SweepRow::state},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::read, SweepRow, backend, resolved, site, job_template),
    SHARDSWEEP_FIELDS(SweepRow, failed_starts, failed_nodes, held, remeasure_at, remeasured,
        remeasuring, remeasured_was, remeasured_is),
    Field{"submitted_at", &SweepRow::submitted_at, Flag::read},
};

/// Origin of a trial's cancellation: `resume` goes on with trials that were not cancelled by name.
/// Stored text.
enum class CancelledBy : std::uint8_t { nobody, sweep, name, budget };
SHARDSWEEP_WORDS(CancelledBy, "", "sweep", "name", "budget");

/// Axes of a layout that a trainer may refuse for its number.
struct Degrees {
  std::int32_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1, vpp = 1, grad_accum = 1;
  friend bool operator==(const Degrees&, const Degrees&) = default;
};
template <>
inline constexpr auto described<Degrees> = Entries{
    SHARDSWEEP_FLAGGED_FIELDS(Flag::read, Degrees, dp, tp, pp, cp, ep, vpp, grad_accum),
};

struct TrialRow {
  TrialId id = 0;
  SweepId sweep = 0;
  std::string slug;
  std::string lane;  ///< lane_key
  std::int32_t micro_batch = 1;
  std::int32_t nodes = 0;
  std::int32_t gpus = 1;
  Degrees degrees{};
  std::int64_t position = 0;  ///< order in which to run; ties by id
  double predicted_s = 0;     ///< predicted time of one attempt
  State state = State::planned;
  std::optional<Outcome> outcome;
  std::int32_t charged = 0;    ///< failed attempts that count against the trial
  std::int32_t elsewhere = 0;  ///< failed attempts that do not
  std::int32_t attempts = 0;   ///< number of the last attempt
  /// Outcome of its last attempt that is over; none: there was none.
  std::optional<Outcome> last{};
  bool hidden = false;  ///< the edited sweep file no longer has it: not to be started
  /// Earlier outcome of a trial that runs again. It holds until a new one is durable; while it is
  /// `completed`, so does the counted measurement.
  std::optional<Outcome> prior{};
  CancelledBy cancelled_by = CancelledBy::nobody;  ///< origin of the outcome `cancelled`
  /// True with the outcome `oom`: memory was there, in pieces. It says nothing about other layouts.
  bool fragmented = false;
  bool expandable = false;    ///< true: its next attempts run with segments that grow
  std::string cause{};        ///< the first evidence of its outcome, one line
  std::string prior_cause{};  ///< cause of `prior`
  // Place of a run in the finals of its cell.
  TrialId final_of = 0;          ///< the trial that brought its layout there; 0: it is no such run
  std::int32_t final_round = 0;  ///< number of the round, from 1
  std::int32_t final_set = 0;    ///< number of the set of nodes, from 1: each has nodes of its own
  std::string final_avoid{};     ///< nodes of the sets before, with commas
  SideRun side = SideRun::none;  ///< tool of a side run; `final_of` is then the trial whose layout
                                 ///< it runs
  std::int32_t again = 0;  ///< the time at which its layout is measured again, from 1; 0: none
  std::string software{};  ///< snapshot that a remeasured run uses; empty: the sweep's
};
template <>
inline constexpr auto described<TrialRow> = Entries{
    Field{"id", &TrialRow::id, Flag::key},
    SHARDSWEEP_FLAGGED_FIELDS(Flag::read, TrialRow, sweep, slug, lane, micro_batch, nodes, gpus),
    Part{&TrialRow::degrees},
    Field{"position", &TrialRow::position, Flag::read},
    Field{"predicted_attempt_s", &TrialRow::predicted_s, Flag::read},
    Field{"state", &TrialRow::state},
    Field{"outcome", &TrialRow::outcome, Flag::as_null},
    SHARDSWEEP_FIELDS(TrialRow, cause, charged, elsewhere, attempts),
    Field{"last_outcome", &TrialRow::last, Flag::read | Flag::as_null},
    Field{"hidden", &TrialRow::hidden, Flag::read},
    Field{"prior", &TrialRow::prior, Flag::as_null},
    SHARDSWEEP_FIELDS(TrialRow, prior_cause, cancelled_by, fragmented, expandable),
    Field{"final_of", &TrialRow::final_of, Flag::read | Flag::as_null},
    SHARDSWEEP_FLAGGED_FIELDS(
        Flag::read, TrialRow, final_round, final_set, final_avoid, side, again, software),
};

struct AttemptRow {
  AttemptId id = 0;
  TrialId trial = 0;
  std::int32_t number = 0;  ///< counts from 1 per trial
  AllocationId allocation = 0;
  std::string nonce;
  std::string dir;
  State state = State::queued;
  bool revoked = false;            ///< a result that still comes is kept and not counted
  std::optional<Ending> ending{};  ///< empty: it is not over
  bool counted = false;  ///< completed, and its trial's measurement in place of an older one
  Timestamp started_at = 0;
  Timestamp ended_at = 0;
  // Bound for an early end, fixed at its assignment.
  TrialId leader = 0;           ///< the fastest of its cell; 0: it runs to its end
  double leader_step_ms = 0;    ///< train step of the leader with this one's batch
  double give_up_above_ms = 0;  ///< bound on this one's train step
  bool expandable = false;      ///< run with PyTorch's segments that grow
  /// Environment of its first rank, as a JSON object; empty: not known.
  std::string environment{};
  std::string image_digest{};  ///< digest of its container's image; unknown, or empty: it had none
  std::string code_hash{};     ///< hash of the user's own programs; empty: not known

  [[nodiscard]] std::optional<Outcome> outcome() const {
    return ending ? std::optional(ending->outcome) : std::nullopt;
  }
};
template <>
inline constexpr auto described<AttemptRow> = Entries{
    Field{"id", &AttemptRow::id, Flag::key},
    SHARDSWEEP_FIELDS(AttemptRow, trial, number, allocation, nonce, dir, state, revoked),
    Part{&AttemptRow::ending},
    SHARDSWEEP_FIELDS(AttemptRow, counted, started_at, ended_at),
    Field{"leader", &AttemptRow::leader, Flag::as_null},
    SHARDSWEEP_FIELDS(AttemptRow, leader_step_ms, give_up_above_ms, expandable, environment,
        image_digest, code_hash),
};

/// How far a submission has come. Stored text.
enum class Submission : std::uint8_t { committed, accepted, unknown, refused };
SHARDSWEEP_WORDS(Submission, "committed", "accepted", "unknown", "refused");

struct AllocationRow {
  AllocationId id = 0;
  SweepId sweep = 0;  ///< several sweeps never share one
  std::string token;
  std::string job_name;
  std::string job_id;
  std::string dir;
  Backend backend = Backend::none;
  std::int32_t nodes = 1;
  std::int32_t slots_per_node = 1;
  State state = State::queued;
  Submission submission = Submission::committed;
  JobState job_state = JobState::unknown;
  Timestamp created_at = 0;
  Timestamp claimed_at = 0;      ///< 0: not yet
  Timestamp last_beat = 0;       ///< time of the lead's last line
  std::int64_t from_lead_n = 0;  ///< last line of from_lead that is folded in
  bool said_bye = false;
  bool draining = false;
  std::string end_reason;
  /// Outcome that the job's end gives an attempt that was running in it.
  std::optional<Outcome> end_outcome{};
  std::string detail{};     ///< the scheduler's last words about it, with advice
  double time_limit_s = 0;  ///< wall time to be asked for; 0: none
  // Facts that a daemon has learnt over several looks: the next daemon or tick goes on from there.
  bool started = false;            ///< an attempt has started in it
  bool gave_back = false;          ///< attempts that nobody had asked back
  std::int32_t deferrals = 0;      ///< answers "not now" to its submission, in a row
  Timestamp submit_after = 0;      ///< told to come back then: it is in no queue; 0: not told
  std::int32_t resubmissions = 0;  ///< submissions again because no job of it was there
  Missing missing = Missing::nothing;
  Timestamp missing_since = 0;
  Timestamp running_since = 0;  ///< time since which its job was seen to run
  Timestamp deadline = 0;       ///< time by which it has ended, or does not start; 0: none
  Timestamp quiet_since = 0;    ///< time since which its lead was found silent; 0: it speaks
  /// The node that it tries again with a short run; empty: none. Stored with the first change.
  std::string probe_of{};
  Timestamp control_since = 0;  ///< the control that runs in it has started; 0: none runs
  std::string host{};           ///< host of the lead, with its pid and its start time
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;
  Timestamp ended_at = 0;
  Hold hold = Hold::nobody;  ///< hold that the scheduler reported last
  /// The finals on other nodes that it is for, and the nodes that it must not have; 0, empty:
  /// it is for anything else.
  std::int32_t final_set = 0;
  std::string avoid{};
  // Known to this process alone.
  bool own_cancel = false;  ///< the daemon cancelled its job, not a user
  /// Time at which this process read the lead's last line, by its own clock. None: it has read no
  /// line yet.
  std::optional<Timestamp> heard_at{};
  /// Time until which its lead could not speak, or could not be heard; 0: it always could.
  Timestamp listened_since = 0;
};
template <>
inline constexpr auto described<AllocationRow> = Entries{
    Field{"id", &AllocationRow::id, Flag::key},
    Field{"sweep", &AllocationRow::sweep, Flag::as_null},
    SHARDSWEEP_FIELDS(AllocationRow, token, job_name, job_id, dir, backend, nodes, slots_per_node,
        state, submission, job_state, created_at, claimed_at, last_beat, from_lead_n, said_bye,
        draining, end_reason, end_outcome, detail, time_limit_s, started, gave_back, deferrals,
        submit_after, resubmissions, missing, missing_since, running_since, deadline, quiet_since,
        control_since, host, pid, pid_start, ended_at, hold, final_set, avoid),
};

// ---- the clock by which the rows are written

/// How far the wall clock is ahead of the steady one, which counts from the start of the host.
/// A change within one boot is a step of the wall clock.
struct ClockRow {
  std::string boot_id;  ///< empty: no daemon has written yet
  Timestamp ahead = 0;
  friend bool operator==(const ClockRow&, const ClockRow&) = default;
};

// ---- nodes

/// Stored text. In probation a short run decides.
enum class NodeState : std::uint8_t { trusted, quarantined, probation };
SHARDSWEEP_WORDS(NodeState, "trusted", "quarantined", "probation");

/// One thing that speaks against a node.
struct NodeCharge {
  Timestamp at = 0;
  EvidenceKind kind = EvidenceKind::lost;
  TrialId trial = 0;  ///< 0: none
  AttemptId attempt = 0;
  std::string detail;
  // Comparison with its peers in one attempt (fleet/stragglers.hpp).
  double ratio = 0;     ///< ratio of its own time to theirs; 0: not compared
  std::string peers{};  ///< names of some peers, separated by commas
  friend bool operator==(const NodeCharge&, const NodeCharge&) = default;
};
template <>
inline constexpr auto described<NodeCharge> = Entries{
    SHARDSWEEP_FIELDS(NodeCharge, at, kind),
    SHARDSWEEP_FLAGGED_FIELDS(Flag::as_null, NodeCharge, trial, attempt),
    SHARDSWEEP_FIELDS(NodeCharge, detail, ratio, peers),
};

struct NodeRow {
  std::string node;
  NodeState state = NodeState::trusted;
  Timestamp since = 0;   ///< begin of the state
  Timestamp until = 0;   ///< quarantined: when it is tried again
  std::string reason{};  ///< reason of the state, with the evidence
  std::int32_t failed_probes = 0;
  /// Evidence that counts now, oldest first. Each piece is a row of its own.
  std::vector<NodeCharge> evidence{};
};
template <>
inline constexpr auto described<NodeRow> = Entries{
    Field{"node", &NodeRow::node, Flag::key},
    SHARDSWEEP_FIELDS(NodeRow, state, since, until, reason, failed_probes),
};

// ---- controls

/// Time of a control: before or after what an allocation measures, or for a node alone. Stored
/// text.
enum class ControlTime : std::uint8_t {
  start,
  end,
  check,  ///< check of one node, before all else: the allocation's first act
};
SHARDSWEEP_WORDS(ControlTime, "start", "end", "check");

/// Result of a sweep's control in an allocation (fleet/control.hpp).
struct ControlRow {
  AllocationId allocation = 0;
  SweepId sweep = 0;
  std::int32_t nodes = 1;
  ControlTime time = ControlTime::start;
  double tokens_per_s_per_gpu = 0;  ///< speed of its layout; 0: not measured
  double ratio = 0;                 ///< ratio to the median of the sweep's controls on as many
                                    ///< nodes; 0: unknown
  double busbw_bytes_per_s = 0;     ///< bandwidth of an all-reduce over all ranks; 0: not measured
  double network_ratio = 0;         ///< ratio as above, for busbw_bytes_per_s
  double gpu_seconds = 0;           ///< GPU time that it took
  std::string cause{};              ///< why nothing was measured, or why the node has failed
  Timestamp at = 0;
  // Check of a node, as in NodeFacts; empty: it is a control of the allocation.
  std::string node{};
  std::string device{};
  double gemm_flops = 0;
  double sm_clock_mhz = 0;
  double host_free = -1;
  double gpu_used_bytes = -1;
  double seconds = 0;
  std::string unmade{};  ///< texts with "; " between them
  bool blamed = false;   ///< the node has failed, not its site
  [[nodiscard]] bool measured() const { return tokens_per_s_per_gpu > 0 || busbw_bytes_per_s > 0; }
};
template <>
inline constexpr auto described<ControlRow> = Entries{
    SHARDSWEEP_FLAGGED_FIELDS(Flag::key, ControlRow, allocation, time, node),
    SHARDSWEEP_FIELDS(ControlRow, sweep, nodes),
    Field{"tokens_per_s", &ControlRow::tokens_per_s_per_gpu},
    // stored words stay: per GPU too
    Field{"ratio", &ControlRow::ratio},
    SHARDSWEEP_FIELDS(ControlRow, busbw_bytes_per_s, network_ratio, gpu_seconds, cause, at, device,
        gemm_flops, sm_clock_mhz, host_free, gpu_used_bytes, seconds, unmade, blamed),
};

}  // namespace shardsweep
