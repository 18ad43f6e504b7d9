// SPDX-License-Identifier: Apache-2.0
#include "attempt/ended_attempt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// Collects evidence from the nodes; `settled` takes what else they report beside causes.
std::vector<Evidence> evidence_of_nodes(
    const EndedAttempt& attempt, Settlement& settled, std::string& notes) {
  Ending& said = settled.ending;
  std::vector<Evidence> evidence;
  const bool cut_short = std::any_of(attempt.nodes.begin(), attempt.nodes.end(),
      [](const auto& node) { return node.second.cut_short; });
  for (const auto& [name, ended] : attempt.nodes) {
    add_beside(said, ended.ending);
    settled.node_failed = settled.node_failed || ended.ending.outcome == Outcome::node_failure;
    // srun and its step were signalled together with the lead.
    const bool same_signal = attempt.own && attempt.own->ending.outcome == Outcome::preempted &&
        ended.ending.signal == SIGTERM;
    // Failures of other ranks follow from our own end of rank 0.
    const bool follows = cut_short && ended.ending.outcome != Outcome::node_failure;
    if (same_signal || (follows && ended.ending.outcome != Outcome::completed)) continue;
    if (ended.ending.outcome != Outcome::completed) {
      // The one agent of a step says where it happened, or that this is not known.
      evidence.push_back(evidence_of_node(ended, attempt.is_step ? "" : name));
    } else {
      add_clause(notes, ended.ending.cause);
    }
  }
  return evidence;
}

Pace pace_of_nodes(const EndedAttempt& attempt) {
  std::vector<Pace> nodes;
  for (const auto& [name, ended] : attempt.nodes)
    nodes.push_back(
        {ended.sm_clock_mhz, ended.power_w, static_cast<std::uint64_t>(ended.held_back)});
  return pace_of(nodes);
}

/// Names the rank that others waited for, if ranks waited for each other.
void name_the_guilty(const EndedAttempt& attempt, Ending& ending, const ReadRecorders& recorders) {
  const bool waited = ending.outcome == Outcome::hung || ending.outcome == Outcome::timeout ||
      ending.outcome == Outcome::comm_error;
  if (!waited) return;
  const auto reading = recorders();
  if (!reading) return;
  const std::string guilty = accusation(*reading, attempt.spec.ranks_per_node, attempt.names);
  if (!guilty.empty()) ending.cause += "; " + guilty;
  // The others lost a peer whose own node saw nothing but an exit with 0.
  if (ending.outcome != Outcome::comm_error || reading->guilty.empty()) return;
  const auto name = attempt.names.find(reading->guilty.front() / attempt.spec.ranks_per_node);
  if (name == attempt.names.end()) return;
  const auto node = attempt.nodes.find(name->second);
  if (node == attempt.nodes.end() || node->second.ending.outcome != Outcome::completed) return;
  ending.outcome = Outcome::crashed;
  ending.cause = fmt::format(
      "{}; {}", evidence_of_early_exit(reading->guilty.front(), 0).ending.cause, ending.cause);
}

}  // namespace

Settlement judge_ended(const EndedAttempt& attempt, bool measured, const ReadRecorders& recorders) {
  Settlement settled;
  settled.assign = attempt.assign;
  settled.pace = pace_of_nodes(attempt);
  std::string notes;
  std::vector<Evidence> evidence = evidence_of_nodes(attempt, settled, notes);
  // The lead's own reason counts if no node tells an earlier one.
  if (attempt.own) evidence.push_back(*attempt.own);
  Ending ending = classify(evidence, measured).ending;
  settled.told_to_stop = ending.outcome == Outcome::preempted;
  if (settled.told_to_stop && attempt.time_is_up) {
    ending.outcome = Outcome::timeout;
    ending.cause = "the allocation reached its time limit";
  }
  // A reason of the lead's own is about all nodes, and the node of rank 0 has said who left.
  if (!attempt.own) {
    say_who_ran_on(ending, evidence);
  } else if (settled.ending.also.find(attempt.own->ending.cause) != std::string::npos) {
    ending.cause.clear();
  }
  if (ending.cause.empty()) ending.cause = notes;
  name_the_guilty(attempt, ending, recorders);
  add_beside(ending, settled.ending);
  if (ending.outcome != Outcome::completed) ending.mark = Mark::none;
  ending.fragmented = ending.fragmented && ending.outcome == Outcome::oom;
  settled.ending = std::move(ending);
  return settled;
}

}  // namespace shardsweep
