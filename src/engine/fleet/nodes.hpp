// SPDX-License-Identifier: Apache-2.0
// The ledger of nodes: what speaks against each, who is excluded for it, and how one comes
// back. Pure: rows in, changed rows out.
//
//   trusted ──evidence──► quarantined ──probe_after──► probation ──probe passed──► trusted
//                              ▲                            │
//                              └──── twice as long ─────────┘ probe failed
#pragma once

#include "fleet/fold.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/sweep.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Name of this machine's node agent (`launch: local`).
inline constexpr std::string_view local_node = "local";

/// True if this kind of evidence counts against the node whatever ran there.
[[nodiscard]] bool speaks_against_node(EvidenceKind kind);

/// Kind of evidence that an attempt's end gives against the node of its first cause; empty: none.
[[nodiscard]] std::optional<EvidenceKind> evidence_kind(const Ending& ending);

/// Adds evidence against a node; evidence without a node's name is dropped.
void add_evidence(Fold fold, const std::string& node, NodeCharge evidence);

/// Suspects, after an attempt was measured, the nodes on which its trial failed before, unless they
/// took part in the measurement.
void suspect_others(Fold fold, const AttemptRow& attempt);

/// The distinct nodes that have failed under one trial.
[[nodiscard]] std::vector<std::string> nodes_failed_under(const World& world, TrialId trial);
/// Drops the trial's evidence against all nodes, because the trial itself is to blame. A node that
/// was excluded for that alone comes back.
void forget_evidence_of(Fold fold, const Policy& policy, TrialId trial);

/// Number by which a lead knows a probe. It is negative, unlike any attempt's.
[[nodiscard]] inline AttemptId probe_attempt(const AllocationRow& allocation) {
  return -allocation.id;
}
/// Work of a probe in place of a sweep's trial. It is a model of toy size over all slots of one
/// node, with the sweep's runner, dtype and environment.
struct Probe {
  SweepSpec sweep;
  Point point;
};
[[nodiscard]] Probe probe_of(const SweepSpec& sweep, const Point& example);

/// Takes the end of a probe; `cause` says why it failed.
void end_probe(Fold fold, const Policy& policy, const AllocationRow& allocation, bool passed,
    const std::string& cause);

/// Makes a probe due again that did not run because no sweep waited for the node any more.
void put_off_probe(Fold fold, const AllocationRow& allocation);
/// True if a node is to be tried again, and there is work that it could do.
[[nodiscard]] bool probe_is_due(const World& world, Timestamp now);

/// Lets all excluded nodes back in, because Slurm has too few nodes for a job without them.
void let_all_in(Fold fold, const std::string& why);
/// Clears a node at a user's request.
void clear_node(Fold fold, const NodeRow& node, const std::string& who);

/// Excludes nodes with enough evidence, within policy.most_out.
void judge_nodes(Fold fold, const Policy& policy);

/// Nodes that new allocations must not get, by name.
[[nodiscard]] std::vector<std::string> nodes_out(const World& world);
/// True if an allocation holds an excluded node, so that it gets no more work.
[[nodiscard]] bool holds_node_out(const World& world, AllocationId allocation);

/// First node of a list in Slurm's form: the batch host. Empty: it names none.
[[nodiscard]] std::string first_node(std::string_view slurm_list);

}  // namespace shardsweep
