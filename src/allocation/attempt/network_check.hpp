// SPDX-License-Identifier: Apache-2.0
// The network between an allocation's nodes, as the last part of their check. Pure.
//
// Two nodes each time an all-reduce, all pairs of a round side by side: so the cost does not
// grow with the allocation. Nodes stand in a ring and are held against both neighbours; the
// better of the two figures is a node's, since a slow node spoils what its partner measures.
// Who is slow after that is timed once more with a node that is not: between two slow nodes a
// good one would be taken for one of them.
//
//   n1 ─ n2   n3 ─ n4      first round
//        n2 ─ n3   n4 ─ n1 second round (a third one closes a ring of an odd number)
//   slow ─ fast            last round, if there are both
#pragma once

#include "attempt/node_verdict.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Limit of one round: a hung pair must not hold the next one up for long.
[[nodiscard]] constexpr double round_limit_s(const LaneLimits& limits) {
  constexpr double least_s = 1;
  return limits.check_limit_s > 3 * least_s ? limits.check_limit_s / 3 : least_s;
}

struct NodePair {
  std::string first;  ///< rank 0 is there
  std::string second;
  std::string meet;  ///< NodeFacts::meet of `first`
  friend bool operator==(const NodePair&, const NodePair&) = default;
};
/// Encodes the pairs of a round for their nodes: a line each.
[[nodiscard]] std::string encode_pairs(const std::vector<NodePair>& pairs);
/// The pair of that node; none: it has nothing to do in this round.
[[nodiscard]] std::optional<NodePair> pair_of(std::string_view text, const std::string& node);

class NetworkCheck {
 public:
  /// `facts`: what all nodes have found of themselves. Who has failed at that takes no part.
  NetworkCheck(
      const LaneLimits& limits, const CheckOrder& order, std::map<std::string, NodeFacts> facts);

  /// The pairs of the next round; empty: it is over.
  [[nodiscard]] std::vector<NodePair> next();
  [[nodiscard]] std::int32_t round() const { return round_; }
  /// Takes an answer of the current round; answers of other rounds are ignored.
  void take(const std::string& node, std::int32_t round, const NodeFacts& said);
  [[nodiscard]] bool all_answered() const { return open_.empty(); }

  /// Facts of all nodes, with the results of the rounds.
  [[nodiscard]] std::map<std::string, NodeFacts> facts() const;

 private:
  [[nodiscard]] std::vector<NodePair> ring_round() const;
  [[nodiscard]] std::vector<NodePair> last_round() const;
  void settle_round();

  LaneLimits limits_;
  CheckOrder order_;
  std::map<std::string, NodeFacts> facts_;
  std::vector<std::string> ring_;
  std::vector<NodePair> pairs_{};  ///< pairs of the round
  std::set<std::string> open_{};   ///< nodes that have not answered yet
  std::map<std::string, NodeFacts> answers_{};
  std::map<std::string, std::vector<std::string>> faults_{};  ///< faults of pairs that gave no
                                                              ///< figure
  std::set<std::string> unable_{};                            ///< nodes that can't make the check
  std::int32_t round_ = 0;
  bool over_ = false;
};

}  // namespace shardsweep
