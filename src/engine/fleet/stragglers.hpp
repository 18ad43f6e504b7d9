// SPDX-License-Identifier: Apache-2.0
// Nodes that are slower than their peers: found from what each rank of an attempt needed for
// its own work, without what it waited for others. Pure.
#pragma once

#include "fleet/fold.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/records.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Compares a node with its peers in one attempt. One comparison is no evidence by itself.
[[nodiscard]] bool is_pace(EvidenceKind kind);

/// A node beside the others of one attempt.
struct NodePace {
  std::string node;
  double ratio = 1;  ///< own time of its slowest rank / the median of that of its peers
  std::vector<std::string> peers;  ///< nodes that did the same work
  friend bool operator==(const NodePace&, const NodePace&) = default;
};

/// `nodes`: of the attempt, each with as many ranks, in their order. Ranks are compared within
/// their pipeline stage; a node that shares no stage with another is left out. Empty if the
/// runner tells no times.
[[nodiscard]] std::vector<NodePace> paces(
    const OwnWork& work, const std::vector<std::string>& nodes);

struct Slowness {
  double ratio = 1;           ///< median over the attempts in which it was slow
  std::int64_t attempts = 0;  ///< attempts in which it was slow
  std::int64_t compared = 0;  ///< attempts compared since it was first slow
  std::vector<std::string> peers{};
};
/// A node that was slower by policy.slow_node_factor in at least policy.slow_node_after
/// attempts, beside two others at least, and in more attempts than not.
[[nodiscard]] std::optional<Slowness> slowness(
    const NodeRow& node, const Policy& policy, Timestamp now);

/// Notes the paces of one measured attempt for nodes that are slow, or were before. A node that
/// becomes a straggler by it gets that as evidence.
void note_paces(
    Fold fold, const Policy& policy, const AttemptRow& attempt, const std::vector<NodePace>& paces);

}  // namespace shardsweep
