// SPDX-License-Identifier: Apache-2.0
// Decision: Slow nodes are found from busy time without waits, because the step time is the
// same on all ranks.
#include "fleet/stragglers.hpp"

#include "fleet/nodes.hpp"
#include "text/median.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::size_t most_peers_kept = 8;  // limit for one attempt: two peers show that the peer
                                            // is not to blame
constexpr std::size_t least_peers = 2;

/// Work time of the slowest rank of each node, by stage. The other ranks wait for that rank.
using Times = std::map<std::int32_t, std::map<std::size_t, double>>;

Times slowest_ranks(const OwnWork& work, std::size_t nodes) {
  Times times;
  const std::size_t ranks_per_node = work.busy_ms.size() / nodes;
  for (std::size_t rank = 0; rank < work.busy_ms.size(); ++rank) {
    double& slowest = times[work.stages[rank]][rank / ranks_per_node];
    slowest = std::max(slowest, work.busy_ms[rank]);
  }
  return times;
}

std::vector<std::string> names(const std::string& list) {
  std::vector<std::string> all;
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    all.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  return all;
}

bool is_remembered(const NodeCharge& one, const Policy& policy, Timestamp now) {
  return one.at >= now - to_microseconds(policy.remember_s);
}

NodeCharge charge_of(const NodePace& pace, bool slow, const AttemptRow& attempt, Timestamp now) {
  const auto shown = std::min(pace.peers.size(), most_peers_kept);
  const std::vector<std::string> peers(
      pace.peers.begin(), pace.peers.begin() + static_cast<std::ptrdiff_t>(shown));
  NodeCharge charge{.at = now,
      .kind = slow ? EvidenceKind::slower : EvidenceKind::on_pace,
      .trial = attempt.trial,
      .attempt = attempt.id,
      .detail = fmt::format(
          "its slowest rank needed {:.2f} times as long as the slowest ranks of its peers",
          pace.ratio)};
  charge.ratio = pace.ratio;
  charge.peers = fmt::format("{}", fmt::join(peers, ","));
  return charge;
}

void find_straggler(
    Fold fold, const Policy& policy, const AttemptRow& attempt, const std::string& name) {
  // Skip a node without a name: the name comes from the lead.
  const NodeRow* node = fold.world.node(name);
  if (node == nullptr) return;
  const bool known =
      std::any_of(node->evidence.begin(), node->evidence.end(), [&](const NodeCharge& one) {
        return one.kind == EvidenceKind::slow && is_remembered(one, policy, fold.now);
      });
  const auto slow = slowness(*node, policy, fold.now);
  if (known || !slow) return;
  NodeCharge finding{.at = fold.now,
      .kind = EvidenceKind::slow,
      .detail = fmt::format("needs {:.2f} times as long as its peers for the "
                            "same work, in {} of {} attempts beside {}",
          slow->ratio, slow->attempts, slow->compared, fmt::join(slow->peers, ", "))};
  finding.ratio = slow->ratio;
  const TrialRow* trial = fold.world.trial(attempt.trial);
  fold.world.record(AddEvent{.at = fold.now,
      .sweep = trial == nullptr ? 0 : trial->sweep,
      .allocation = attempt.allocation,
      .kind = EventKind::node_slow,
      .detail = fmt::format("{} {}", name, finding.detail)});
  add_evidence(fold, name, std::move(finding));
}

}  // namespace

bool is_pace(EvidenceKind kind) {
  return kind == EvidenceKind::slower || kind == EvidenceKind::on_pace;
}

std::vector<NodePace> paces(const OwnWork& work, const std::vector<std::string>& nodes) {
  const std::size_t ranks = work.busy_ms.size();
  const bool whole =
      nodes.size() > 1 && ranks > 0 && ranks % nodes.size() == 0 && work.stages.size() == ranks;
  if (!whole) return {};
  std::map<std::size_t, NodePace> worst;
  for (const auto& [stage, times] : slowest_ranks(work, nodes.size())) {
    if (times.size() < 2) continue;  // no other node does this work
    for (const auto& [node, own_ms] : times) {
      NodePace pace{.node = nodes[node], .ratio = 1, .peers = {}};
      std::vector<double> others_ms;
      for (const auto& [other, ms] : times) {
        if (other == node) continue;
        others_ms.push_back(ms);
        pace.peers.push_back(nodes[other]);
      }
      const double usual_ms = median_of(std::move(others_ms), Even::mean);
      if (!(usual_ms > 0)) continue;
      pace.ratio = own_ms / usual_ms;
      const auto [known, fresh] = worst.try_emplace(node, pace);
      if (!fresh && pace.ratio > known->second.ratio) known->second = pace;
    }
  }
  std::vector<NodePace> all;
  all.reserve(worst.size());
  for (auto& [node, pace] : worst)
    all.push_back(std::move(pace));
  return all;
}

std::optional<Slowness> slowness(const NodeRow& node, const Policy& policy, Timestamp now) {
  Slowness slow;
  std::vector<double> ratios;
  std::set<std::string> peers;
  for (const NodeCharge& one : node.evidence) {
    if (!is_pace(one.kind) || !is_remembered(one, policy, now)) continue;
    ++slow.compared;
    if (one.kind != EvidenceKind::slower) continue;
    ratios.push_back(one.ratio);
    for (std::string& peer : names(one.peers))
      peers.insert(std::move(peer));
  }
  slow.attempts = static_cast<std::int64_t>(ratios.size());
  const bool enough = slow.attempts >= policy.slow_node_after &&
      2 * slow.attempts > slow.compared && peers.size() >= least_peers;
  if (!enough) return std::nullopt;
  slow.ratio = median_of(std::move(ratios), Even::mean);
  slow.peers.assign(peers.begin(), peers.end());
  return slow;
}

void note_paces(Fold fold, const Policy& policy, const AttemptRow& attempt,
    const std::vector<NodePace>& paces) {
  for (const NodePace& pace : paces) {
    const bool slow = pace.ratio >= policy.slow_node_factor;
    const NodeRow* known = fold.world.node(pace.node);
    // Most nodes are never slow: skip them.
    const bool was_slow = known != nullptr &&
        std::any_of(known->evidence.begin(), known->evidence.end(),
            [](const NodeCharge& one) { return one.kind == EvidenceKind::slower; });
    if (!slow && !was_slow) continue;
    add_evidence(fold, pace.node, charge_of(pace, slow, attempt, fold.now));
    if (slow) find_straggler(fold, policy, attempt, pace.node);
  }
}

}  // namespace shardsweep
