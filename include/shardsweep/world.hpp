// SPDX-License-Identifier: Apache-2.0
// What the daemon believes: the rows it folds observations into, and the changes it commits.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/scheduler.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardsweep {

using SweepId = std::int64_t;
using TrialId = std::int64_t;
using AllocationId = std::int64_t;

/// Stored text: active, paused, cancelled.
enum class SweepState : std::uint8_t { active, paused, cancelled };
inline constexpr std::array<std::string_view, 3> sweep_state_words{"active", "paused",
                                                                   "cancelled"};

struct SweepRow {
  SweepId id = 0;
  std::string name;
  SweepState state = SweepState::active;
  std::string backend;       ///< "local" or "slurm", chosen at submission
  std::string resolved;      ///< complete sweep file as explain_sweep() writes it
  std::string site;          ///< complete site file as explain_site() writes it; empty: none
  std::string job_template;  ///< text of the job script's template; empty: none is needed
  // Allocations in a row that ended before they had started anything.
  std::int32_t failed_starts = 0;
  std::int32_t failed_nodes = 0;  ///< of those that a node took with it, counted apart
  std::string held;               ///< why nothing more is asked for; empty: nothing holds it
};

/// Who cancelled a trial: `resume` goes on with what was not cancelled by name. Stored text.
enum class CancelledBy : std::uint8_t { nobody, sweep, name, budget };
inline constexpr std::array<std::string_view, 4> cancelled_by_words{"", "sweep", "name",
                                                                    "budget"};

struct TrialRow {
  TrialId id = 0;
  SweepId sweep = 0;
  std::string slug;
  std::string lane;  ///< lane_key
  std::int32_t micro_batch = 1;
  std::int32_t nodes = 0;
  std::int32_t gpus = 1;
  std::int64_t position = 0;  ///< order in which to run; ties by id
  double predicted_s = 0;     ///< of one attempt
  State state = State::planned;
  std::optional<Outcome> outcome;
  std::int32_t charged = 0;    ///< failed attempts that count against the trial
  std::int32_t elsewhere = 0;  ///< failed attempts that do not
  std::int32_t attempts = 0;   ///< number of the last attempt
  /// Of its last attempt that is over; none: there was none.
  std::optional<Outcome> last{};
  bool hidden = false;  ///< the edited sweep file no longer has it: not to be started
  /// Not ended: the outcome that it had before it was run again. It holds until a new one is
  /// durable; while it is `completed`, so does the counted measurement.
  std::optional<Outcome> prior{};
  CancelledBy cancelled_by = CancelledBy::nobody;  ///< of the outcome `cancelled`
};

struct AttemptRow {
  AttemptId id = 0;
  TrialId trial = 0;
  std::int32_t number = 0;  ///< counts from 1 per trial
  AllocationId allocation = 0;
  std::string nonce;
  std::string dir;
  State state = State::queued;
  bool revoked = false;  ///< its result, should one come, is kept and not counted
};

/// How far a submission has come. Stored text.
enum class Submission : std::uint8_t { committed, accepted, unknown, refused };
inline constexpr std::array<std::string_view, 4> submission_words{"committed", "accepted",
                                                                  "unknown", "refused"};

struct AllocationRow {
  AllocationId id = 0;
  SweepId sweep = 0;  ///< several sweeps never share one
  std::string token;
  std::string job_name;
  std::string job_id;
  std::string dir;
  std::string backend;
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
  /// What the job's end means for an attempt that was running in it.
  std::optional<Outcome> end_outcome{};
  std::string detail{};     ///< the scheduler's last words about it, with advice
  double time_limit_s = 0;  ///< wall time to be asked for; 0: none
  // What a daemon has learnt over several looks: the next one, or a tick, goes on from there.
  bool started = false;            ///< an attempt has started in it
  bool gave_back = false;          ///< attempts that nobody had asked back
  std::int32_t deferrals = 0;      ///< answers "not now" to its submission, in a row
  Timestamp submit_after = 0;      ///< told to come back then: it is in no queue; 0: not told
  std::int32_t resubmissions = 0;  ///< because no job of it was there
  Missing missing = Missing::nothing;
  Timestamp missing_since = 0;
  Timestamp running_since = 0;  ///< its job was seen to run
  Timestamp deadline = 0;       ///< it has ended by then, or does not start; 0: none
  Timestamp quiet_since = 0;    ///< since when its lead was found silent; 0: it speaks
  std::string probe_of{};       ///< the node that it tries again with a short run; empty: none
  Timestamp control_since = 0;  ///< its last control has started; 0: not seen by this daemon
  // Known to this process alone.
  bool own_cancel = false;  ///< the daemon cancelled its job, not a user
  /// When this process read the lead's last line, by its own clock. None: it has read no line
  /// yet.
  std::optional<Timestamp> heard_at{};
};

// ---- nodes
// -----------------------------------------------------------------------------------

/// Stored text. In probation a short run decides.
enum class NodeState : std::uint8_t { trusted, quarantined, probation };
inline constexpr std::array<std::string_view, 3> node_state_words{"trusted", "quarantined",
                                                                  "probation"};

/// One thing that speaks against a node.
struct NodeCharge {
  Timestamp at = 0;
  std::string
      kind;  ///< lost, hardware, dirty, failed, suspect, slow; or an outcome (fleet/nodes.hpp)
  TrialId trial = 0;  ///< 0: none
  AttemptId attempt = 0;
  std::string detail;
  // Beside its peers in one attempt (fleet/stragglers.hpp).
  double ratio = 0;     ///< its own time over theirs; 0: not compared
  std::string peers{};  ///< some of them, separated by commas
  friend bool operator==(const NodeCharge&, const NodeCharge&) = default;
};

struct NodeRow {
  std::string node;
  NodeState state = NodeState::trusted;
  Timestamp since = 0;   ///< of the state
  Timestamp until = 0;   ///< quarantined: when it is tried again
  std::string reason{};  ///< of the state, with the evidence
  std::int32_t failed_probes = 0;
  std::vector<NodeCharge> evidence{};  ///< what counts now, oldest first
};

// ---- controls
// ----------------------------------------------------------------------------------

/// Before or after what an allocation measures. Stored text.
enum class ControlTime : std::uint8_t { start, end };
inline constexpr std::array<std::string_view, 2> control_time_words{"start", "end"};

/// What an allocation made of its sweep's control (fleet/control.hpp).
struct ControlRow {
  AllocationId allocation = 0;
  SweepId sweep = 0;
  std::int32_t nodes = 1;
  ControlTime time = ControlTime::start;
  double tokens_per_s = 0;       ///< of its layout; 0: not measured
  double ratio = 0;              ///< to the median of the sweep's on as many nodes; 0: unknown
  double busbw_bytes_per_s = 0;  ///< of an all-reduce over all ranks; 0: not measured
  double network_ratio = 0;      ///< as `ratio`
  double gpu_seconds = 0;        ///< that it took
  std::string cause{};           ///< why nothing was measured
  Timestamp at = 0;
  [[nodiscard]] bool measured() const { return tokens_per_s > 0 || busbw_bytes_per_s > 0; }
};

/// Everything that is not over. Ended trials of live sweeps are in it as far as rules need
/// them.
struct World {
  std::vector<SweepRow> sweeps;
  std::map<TrialId, TrialRow> trials;
  std::map<AttemptId, AttemptRow> attempts;
  std::map<AllocationId, AllocationRow> allocations;
  std::map<std::string, NodeRow> nodes;  ///< those with a state or evidence
  std::map<AllocationId, std::vector<std::string>> nodes_of;  ///< as its agents said
  std::map<AllocationId, std::string> lead_nodes;  ///< on which its lead runs, where it said so
  std::vector<ControlRow> controls;  ///< of all sweeps, in the order in which they ended
  AttemptId next_attempt = 1;
  AllocationId next_allocation = 1;
};

// ---- changes: what one tick commits, in one transaction
// ----------------------------------------

struct SetSweep {
  SweepId id = 0;
  SweepState state = SweepState::active;
  std::int32_t failed_starts = 0;
  std::int32_t failed_nodes = 0;
  std::string held{};
  friend bool operator==(const SetSweep&, const SetSweep&) = default;
};
struct SetTrial {
  TrialId id = 0;
  State state = State::planned;
  std::optional<Outcome> outcome;
  std::string cause;
  std::int32_t charged = 0;
  std::int32_t elsewhere = 0;
  std::int32_t attempts = 0;
  std::optional<Outcome> prior{};
  CancelledBy cancelled_by = CancelledBy::nobody;
  bool restores = false;  ///< the outcome is the prior one: its stored cause comes back too
};
/// Inserted, or updated where the id exists. Without an outcome, what is stored about the end
/// (outcome to leaked) stays.
struct PutAttempt {
  AttemptRow row;
  std::optional<Outcome> outcome;
  bool counted = false;  ///< completed and the trial's measurement, in place of an older one
  std::int32_t exit_code = -1;
  std::int32_t signal = 0;
  std::string cause;
  std::string source;
  std::int32_t leaked = 0;
  Timestamp started_at = 0;  ///< 0: leaves what is stored
  Timestamp ended_at = 0;
  std::string node{};  ///< where the first cause was seen; may be empty
  std::string also{};  ///< what contradicts the outcome; may be empty
};
struct PutAllocation {  ///< inserted, or updated where the id exists
  AllocationRow row;
  std::string host;  ///< of the lead; empty: leaves what is stored
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;
  Timestamp ended_at = 0;
};
struct TrainStepSample {
  std::int32_t step = 0;
  double step_ms = 0;
  double loss = 0;
};
/// A `result` record, with what the `start` record said it ran. The first one of an attempt
/// stays.
struct AddMeasurement {
  AttemptId attempt = 0;
  TrialId trial = 0;
  std::map<std::string, double, std::less<>> metrics;  ///< by MetricInfo::name; absent: NULL
  std::string flops_model;
  std::string runner_version;
  std::string software{};  ///< JSON object: what else the start record says it ran
  std::string hosts;       ///< JSON array
  std::string mark{};      ///< contaminated or implausible: kept, not ranked; empty: none
  std::string detail;      ///< the result record as it was written
  std::vector<TrainStepSample> samples;
};
struct AddEvent {
  Timestamp at = 0;
  SweepId sweep = 0;  ///< 0: none, as below
  TrialId trial = 0;
  AttemptId attempt = 0;
  AllocationId allocation = 0;
  std::string kind;  ///< short word: submitted, claimed, started, ended, skipped, adopted, …
  std::string detail;  ///< one line of text
};
struct SeenNode {
  std::string node;
  std::string host;
  Timestamp at = 0;
  AllocationId allocation = 0;
  bool has_lead = false;
};
struct AddNodeEvidence {
  std::string node;
  NodeCharge evidence;
};
/// Counts no more: of a trial that is to blame itself (not 0), else of the node.
struct ForgetEvidence {
  std::string node;
  TrialId trial = 0;
};
struct SetNode {
  NodeRow row;  ///< its evidence is stored by itself
};
/// How the short run of an allocation made for it has ended.
struct EndProbe {
  AllocationId allocation = 0;
  bool passed = false;
  std::string cause;
  Timestamp at = 0;
};

/// Inserted, or updated where there is one of that time.
struct PutControl {
  ControlRow row;
};
/// It was measured in an allocation whose control is off: contaminated, where nothing is held
/// against it yet.
struct MarkMeasurement {
  AttemptId attempt = 0;
};

using Change = std::variant<SetSweep, SetTrial, PutAttempt, PutAllocation, AddMeasurement,
                            AddEvent, SeenNode, AddNodeEvidence, ForgetEvidence, SetNode,
                            EndProbe, PutControl, MarkMeasurement>;

}  // namespace shardsweep
