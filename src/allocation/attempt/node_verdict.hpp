// SPDX-License-Identifier: Apache-2.0
// What the check of an allocation's nodes says: who has failed, and whether that is the node's
// fault or its site's. Pure.
//
// A node's speed is held against the median of nodes with the same device: that of all nodes
// that were ever checked, or of those of this allocation while too few are known, or else
// against what the cluster file says. A check that all nodes fail says nothing of a node; a
// slow network between the two nodes of an allocation makes both of them suspects.
#pragma once

#include <shardsweep/check.hpp>
#include <shardsweep/policy.hpp>

#include <map>
#include <string>
#include <vector>

namespace shardsweep {

/// Nodes with a device, before their median says what is usual.
inline constexpr std::size_t least_checked = 3;

/// 0 if there are too few.
[[nodiscard]] double usual_of(std::vector<double> values);

struct NodeVerdict {
  std::vector<std::string> failed{};  ///< sentences; each begins with the name of its check
  std::vector<std::string> unmade{};  ///< checks that NodeFacts lists as not made, and checks that
                                      ///< could not be judged
  bool blamed = false;
  bool suspected = false;  ///< this node or its one partner has a slow network
  friend bool operator==(const NodeVerdict&, const NodeVerdict&) = default;
};
struct CheckVerdict {
  std::map<std::string, NodeVerdict> nodes;  ///< verdicts by node name
  std::string site{};  ///< sentence on checks that all of several nodes fail; empty: none
  [[nodiscard]] bool passed() const;
  /// Why the allocation is given back.
  [[nodiscard]] std::string why() const;
};

[[nodiscard]] CheckVerdict judge_checks(const LaneLimits& limits, const CheckOrder& order,
    const std::map<std::string, NodeFacts>& facts);

/// Joins sentences with "; ".
[[nodiscard]] std::string sentences(const std::vector<std::string>& all);

}  // namespace shardsweep
