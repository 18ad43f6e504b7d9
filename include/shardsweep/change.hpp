// SPDX-License-Identifier: Apache-2.0
// What the database gives to a daemon (WorldRows), and what one tick commits to it (Change), in
// one transaction.
#pragma once

#include <shardsweep/event.hpp>
#include <shardsweep/evidence.hpp>
#include <shardsweep/rows.hpp>

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsweep {

/// Rows of all that is not over. Ended trials of live sweeps are included if rules need them.
struct WorldRows {
  std::map<SweepId, SweepRow> sweeps;
  std::map<TrialId, TrialRow> trials;
  std::map<AttemptId, AttemptRow> attempts;
  std::map<AllocationId, AllocationRow> allocations;
  std::map<std::string, NodeRow> nodes;                       ///< nodes with a state or evidence
  std::map<AllocationId, std::vector<std::string>> nodes_of;  ///< node names that its agents told
  std::map<AllocationId, std::string> lead_nodes;  ///< node on which its lead runs, if it told so
  std::vector<ControlRow> controls;  ///< controls of all sweeps, in the order in which they ended
  ClockRow clock;                    ///< clock of the daemon that wrote last
  AttemptId next_attempt = 1;
  AllocationId next_allocation = 1;
};

// ---- rows as they are now

struct SetSweep {
  SweepRow row;
};
struct SetTrial {
  TrialRow row;
};
/// Inserted, or updated if the id exists. One that is counted takes the place of an older
/// counted one, while its trial has not ended.
struct PutAttempt {
  AttemptRow row;
};
struct PutAllocation {  ///< inserted, or updated if the id exists
  AllocationRow row;
};
struct SetNode {
  NodeRow row;  ///< row of the node; its evidence is stored by itself
};
/// Inserted, or updated if there is one of that time.
struct PutControl {
  ControlRow row;
};

struct SetClock {
  ClockRow row;
};

// ---- what is added and never changed

struct TrainStepSample {
  std::int32_t step = 0;
  double step_ms = 0;
  double loss = 0;
};
/// Measurement from a `result` record, with the software that the `start` record names. An attempt
/// keeps its first one.
struct AddMeasurement {
  AttemptId attempt = 0;
  TrialId trial = 0;
  std::map<std::string, double, std::less<>> metrics;  ///< values by MetricInfo::name; absent: NULL
  std::string flops_model;
  std::string runner_version;
  std::string software{};  ///< JSON object: further software that the start record names
  std::string hosts;       ///< JSON array
  Mark mark = Mark::none;
  std::string detail;  ///< the result record as it was written
  std::vector<TrainStepSample> samples;
  bool cut_short = false;  ///< ended early: its speed is a bound, and is not ranked
  /// Variables of the first rank that change numbers (rank_variables.hpp), as it found them:
  /// "NAME=value", by name, with spaces between.
  std::string settings{};
  /// Reasons for lower clocks over the timed train steps: "power cap, …"; empty: none, or not told.
  std::string throttled{};

  /// 0: absent.
  [[nodiscard]] double metric(std::string_view name) const {
    const auto found = metrics.find(name);
    return found == metrics.end() ? 0 : found->second;
  }
};
struct AddEvent {
  Timestamp at = 0;
  SweepId sweep = 0;  ///< 0: none, as below
  TrialId trial = 0;
  AttemptId attempt = 0;
  AllocationId allocation = 0;
  EventKind kind = EventKind::started;
  std::string detail;  ///< one line of text
};
struct SeenNode {
  std::string node;
  std::string host;
  Timestamp at = 0;
  AllocationId allocation = 0;
  bool has_lead = false;
  std::string switches{};  ///< switches above it, the top one first, as "core.leaf"; empty: not
                           ///< known
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
/// How the short run of an allocation made for it has ended.
struct EndProbe {
  AllocationId allocation = 0;
  bool passed = false;
  std::string cause;
  Timestamp at = 0;
};
/// Marks an unmarked measurement as contaminated: the control of its allocation deviates too far.
struct MarkMeasurement {
  AttemptId attempt = 0;
};

/// Request whose effects are in the same transaction. A daemon that finds it again only repeats the
/// answer.
struct ServedRequest {
  std::string id;
  Timestamp at = 0;
  std::string answer;  ///< answer as encode() writes it
};

/// File of another database's experience (search.learn_from).
struct AddKnowledge {
  std::string name;  ///< name derived from its content
  Timestamp at = 0;
  std::string text;
};
/// Sweeps that are submitted from now on do not learn from it.
struct ForgetKnowledge {
  std::string name;
  Timestamp at = 0;
};

using Change = std::variant<SetSweep, SetTrial, PutAttempt, PutAllocation, AddMeasurement, AddEvent,
    SeenNode, AddNodeEvidence, ForgetEvidence, SetNode, EndProbe, PutControl, MarkMeasurement,
    SetClock, ServedRequest, AddKnowledge, ForgetKnowledge>;

}  // namespace shardsweep
