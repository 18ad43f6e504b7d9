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

/// Speaks against the node, whatever ran there.
[[nodiscard]] bool speaks_against_node(EvidenceKind kind);

/// The kind of evidence that an attempt's end is against the node of its first cause.
[[nodiscard]] std::optional<EvidenceKind> evidence_kind(const Ending& ending);

/// Adds what speaks against a node; an unnamed one is nobody's.
void add_evidence(Fold fold, const std::string& node, NodeCharge evidence);

/// An attempt has been measured: nodes on which its trial failed before, and which were not
/// among those that measured it, are suspects.
void suspect_others(Fold fold, const AttemptRow& attempt);

/// The distinct nodes that have failed under one trial.
[[nodiscard]] std::vector<std::string> nodes_failed_under(const World& world, TrialId trial);
/// The trial is to blame: what it has left on nodes counts no more, and a node that is out for
/// that alone comes back.
void forget_evidence_of(Fold fold, const Policy& policy, TrialId trial);

/// The number by which a lead knows a probe: no attempt has a negative one.
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

/// A probe is over; `cause` says why it has failed.
void end_probe(Fold fold, const Policy& policy, const AllocationRow& allocation, bool passed,
    const std::string& cause);

/// Makes a probe due again that was not run, because no sweep waits for the node any more.
void put_off_probe(Fold fold, const AllocationRow& allocation);
/// True if a node is to be tried again, and there is work that it could do.
[[nodiscard]] bool probe_is_due(const World& world, Timestamp now);

/// Slurm has no nodes for a job without those that are excluded: they come back, all of them.
void let_all_in(Fold fold, const std::string& why);
/// Clears a node at a user's request.
void clear_node(Fold fold, const NodeRow& node, const std::string& who);

/// Excludes nodes with enough evidence, within policy.most_out.
void judge_nodes(Fold fold, const Policy& policy);

/// Nodes that new allocations must not get, by name.
[[nodiscard]] std::vector<std::string> nodes_out(const World& world);
/// True if an allocation holds a node that is out: it gets no more work.
[[nodiscard]] bool holds_node_out(const World& world, AllocationId allocation);

/// First node of a list in Slurm's form: the batch host. Empty: it names none.
[[nodiscard]] std::string first_node(std::string_view slurm_list);

}  // namespace shardsweep
