// SPDX-License-Identifier: Apache-2.0
#include "attempt/network_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view check_name = "allreduce";

bool fails_allreduce(const NodeVerdict& verdict) {
  return std::any_of(verdict.failed.begin(), verdict.failed.end(),
      [](const std::string& one) { return one.starts_with(check_name); });
}

}  // namespace

std::string encode_pairs(const std::vector<NodePair>& pairs) {
  std::string text;
  for (const NodePair& pair : pairs)
    text += fmt::format("{} {} {}\n", pair.first, pair.second, pair.meet);
  return text;
}

std::optional<NodePair> pair_of(std::string_view text, const std::string& node) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto one = line.find(' ');
    const auto two = one == std::string_view::npos ? one : line.find(' ', one + 1);
    if (two == std::string_view::npos) continue;
    NodePair pair{std::string(line.substr(0, one)),
        std::string(line.substr(one + 1, two - one - 1)), std::string(line.substr(two + 1))};
    if (pair.first == node || pair.second == node) return pair;
  }
  return std::nullopt;
}

NetworkCheck::NetworkCheck(
    const LaneLimits& limits, const CheckOrder& order, std::map<std::string, NodeFacts> facts)
    : limits_(limits), order_(order), facts_(std::move(facts)) {
  const CheckVerdict before = judge_checks(limits_, order_, facts_);
  for (const auto& [name, of_node] : facts_) {
    if (before.nodes.at(name).failed.empty() && !of_node.meet.empty()) ring_.push_back(name);
  }
  if (ring_.size() >= 2) return;
  over_ = true;
  for (auto& [name, of_node] : facts_)
    of_node.unmade.push_back(facts_.size() < 2
            ? "allreduce: needs two nodes, each with its own node agent"
            : "allreduce: fewer than two of the nodes have passed their other checks");
}

std::vector<NodePair> NetworkCheck::next() {
  settle_round();
  if (over_) return {};
  ++round_;
  const auto ring_rounds =
      ring_.size() == 2 ? 1 : static_cast<std::int32_t>(ring_.size() % 2 == 0 ? 2 : 3);
  over_ = round_ > ring_rounds;
  pairs_ = over_ ? last_round() : ring_round();
  open_.clear();
  answers_.clear();
  for (const NodePair& pair : pairs_) {
    open_.insert(pair.first);
    open_.insert(pair.second);
  }
  return pairs_;
}

/// Round 1 begins with the first node, round 2 with the second; of an odd ring the last has its
/// second partner in round 3.
std::vector<NodePair> NetworkCheck::ring_round() const {
  const std::size_t nodes = ring_.size();
  const auto pair_at = [&](std::size_t at) {
    const std::string& first = ring_[at];
    return NodePair{first, ring_[(at + 1) % nodes], facts_.at(first).meet};
  };
  if (round_ == 3) return {pair_at(nodes - 1)};
  std::vector<NodePair> pairs;
  const std::size_t begin = round_ == 1 ? 0 : 1;
  const std::size_t end = nodes % 2 == 0 ? nodes : nodes - 1 + begin;
  for (std::size_t at = begin; at < end; at += 2)
    pairs.push_back(pair_at(at));
  return pairs;
}

std::vector<NodePair> NetworkCheck::last_round() const {
  const CheckVerdict verdict = judge_checks(limits_, order_, facts());
  std::vector<std::string> slow;
  std::vector<std::string> fast;
  for (const std::string& name : ring_)
    (fails_allreduce(verdict.nodes.at(name)) ? slow : fast).push_back(name);
  std::vector<NodePair> pairs;
  for (std::size_t at = 0; at < std::min(slow.size(), fast.size()); ++at)
    pairs.push_back({fast[at], slow[at], facts_.at(fast[at]).meet});
  return pairs;
}

void NetworkCheck::take(const std::string& node, std::int32_t round, const NodeFacts& said) {
  if (round == round_ && open_.erase(node) > 0) answers_[node] = said;
}

/// Takes the pair's figure from rank 0's node. A failure on one node says nothing about the other.
void NetworkCheck::settle_round() {
  for (const NodePair& pair : std::exchange(pairs_, {})) {
    const NodeFacts& first = answers_[pair.first];
    bool able = true;
    for (const std::string& name : {pair.first, pair.second}) {
      const NodeFacts& said = answers_[name];
      facts_.at(name).seconds += said.seconds;
      if (said.unmade.empty()) continue;
      able = false;
      if (unable_.insert(name).second) facts_.at(name).unmade.push_back(said.unmade.front());
    }
    if (!able) continue;
    for (const auto& [name, other] :
        {std::pair(pair.first, pair.second), std::pair(pair.second, pair.first)}) {
      double& best = facts_.at(name).busbw_bytes_per_s;
      best = std::max(best, first.busbw_bytes_per_s);
      if (first.busbw_bytes_per_s > 0) continue;
      const NodeFacts& own = answers_[name];
      faults_[name].push_back(own.wrong.empty()
              ? fmt::format("allreduce: no answer from {} with {}", name, other)
              : own.wrong.front());
    }
  }
}

std::map<std::string, NodeFacts> NetworkCheck::facts() const {
  auto all = facts_;
  for (const auto& [name, said] : faults_) {
    // A node that was measured with another partner is not at fault.
    if (all.at(name).busbw_bytes_per_s <= 0) all.at(name).wrong.push_back(said.back());
  }
  return all;
}

}  // namespace shardsweep
