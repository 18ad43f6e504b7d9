// SPDX-License-Identifier: Apache-2.0
// Decision: A node comes back after a measured short run, never by time alone. A refusal by
// Slurm for want of nodes lets all nodes back in. A job in which no lead starts is a suspicion
// of its first node, and only the first such job there counts against the sweep: an idle node
// takes each new job.
#include "fleet/nodes.hpp"

#include "causes/causes.hpp"
#include "fleet/stragglers.hpp"
#include "text/node_list.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

// A longer quarantine would amount to an exclusion.
constexpr double longest_quarantine_s = 86400;

/// Agents on this machine die when their user ends them, and no other machine could take over: only
/// faults of the machine itself count as evidence.
bool counts_here(const std::string& node, EvidenceKind kind) {
  if (node == local_node)
    return kind == EvidenceKind::hardware || kind == EvidenceKind::dirty ||
        kind == EvidenceKind::check;
  return speaks_against_node(kind);
}

struct Weight {
  std::int64_t failures = 0;
  std::int64_t suspicions = 0;  ///< distinct trials, and what `is_suspicion` says
  std::string last{};
};

/// True for evidence that proves nothing the first time, because anybody may have caused it: no
/// lead has started, agents were killed, or the network between two nodes is slow.
bool is_suspicion(EvidenceKind kind) {
  return kind == EvidenceKind::unstarted || kind == EvidenceKind::killed ||
      kind == EvidenceKind::slow_pair;
}

Weight weigh(const NodeRow& node, const Policy& policy, Timestamp now) {
  Weight weight;
  const bool slow_counts = static_cast<SlowNodes>(policy.slow_nodes) == SlowNodes::exclude;
  std::set<TrialId> trials;
  for (const NodeCharge& one : node.evidence) {
    if (one.at < now - to_microseconds(policy.remember_s)) continue;
    const bool failure =
        counts_here(node.node, one.kind) || (slow_counts && one.kind == EvidenceKind::slow);
    if (failure) ++weight.failures;
    if (one.kind == EvidenceKind::suspect && node.node != local_node) trials.insert(one.trial);
    if (is_suspicion(one.kind)) ++weight.suspicions;
    if (failure || one.kind == EvidenceKind::suspect || is_suspicion(one.kind))
      weight.last = fmt::format("{}: {}", word_of(one.kind), one.detail);
  }
  weight.suspicions += static_cast<std::int64_t>(trials.size());
  return weight;
}

bool is_enough(const Weight& weight, const Policy& policy) {
  return weight.failures >= policy.quarantine_after || weight.suspicions >= policy.suspect_after;
}

void set_state(Fold fold, Edit<NodeRow>& node, NodeState state, const std::string& reason) {
  node->state = state;
  node->since = fold.now;
  node->reason = reason;
  node.done();
  fold.world.record(AddEvent{.at = fold.now,
      .kind = event_of(state),
      .detail = fmt::format("{}: {}", node->node, reason)});
}

void quarantine(Fold fold, Edit<NodeRow>& node, const Policy& policy, const std::string& reason) {
  const double factor = std::ldexp(1.0, std::min(node->failed_probes, 20));
  node->until = fold.now +
      to_microseconds(std::min(
          policy.probe_after_s * factor, std::max(longest_quarantine_s, policy.probe_after_s)));
  set_state(fold, node, NodeState::quarantined, reason);
}

/// Trusts the node again: evidence against it is forgotten.
void trust(Fold fold, const NodeRow& row, const std::string& reason) {
  fold.world.forget_evidence(row, 0);
  auto node = fold.world.edit(row);
  node->failed_probes = 0;
  node->until = 0;
  set_state(fold, node, NodeState::trusted, reason);
}

/// True if the runner could not write because a file system of its node is read-only. Other storage
/// faults, such as a full disk or a server that stalls, hit all nodes.
bool is_read_only(const Ending& ending) {
  if (ending.source != SaidBy::exit && ending.source != SaidBy::runner) return false;
  const Cause* cause = built_in_causes().find(ending.cause, LinePlace::line);
  return cause != nullptr && cause->name == "file-system-read-only";
}

/// True if another node than `name` could not write in the same minutes: then the file system is
/// shared, and not the node's own.
bool is_shared(const World& world, const std::string& name, const NodeCharge& charge) {
  constexpr Timestamp same_time = 600'000'000;
  const auto fits = [&](const NodeCharge& one) {
    return one.kind == EvidenceKind::read_only && std::abs(one.at - charge.at) < same_time;
  };
  return charge.kind == EvidenceKind::read_only &&
      std::any_of(world.nodes().begin(), world.nodes().end(), [&](const auto& entry) {
        const auto& evidence = entry.second.evidence;
        return entry.first != name && std::any_of(evidence.begin(), evidence.end(), fits);
      });
}

}  // namespace

bool speaks_against_node(EvidenceKind kind) {
  switch (kind) {
    case EvidenceKind::silent:
    case EvidenceKind::lost:
    case EvidenceKind::hardware:
    case EvidenceKind::dirty:
    case EvidenceKind::failed:
    case EvidenceKind::control:
    case EvidenceKind::check:
      return true;
    default:
      return false;
  }
}

std::optional<EvidenceKind> evidence_kind(const Ending& ending) {
  switch (ending.outcome) {
    case Outcome::node_failure:
      return ending.source == SaidBy::log ? EvidenceKind::hardware : EvidenceKind::failed;
    case Outcome::hung:
      return EvidenceKind::hung;
    case Outcome::comm_error:
      return EvidenceKind::comm_error;
    case Outcome::crashed:
      return EvidenceKind::crashed;
    case Outcome::lost:
      // Suspect the node: the runner could not write there.
      if (is_read_only(ending)) return EvidenceKind::read_only;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void add_evidence(Fold fold, const std::string& node, NodeCharge evidence) {
  if (!node.empty()) fold.world.charge(node, std::move(evidence));
}

void suspect_others(Fold fold, const AttemptRow& attempt) {
  const auto* here = fold.world.nodes_of(attempt.allocation);
  // Conclude nothing if the attempt's nodes are unknown.
  if (here == nullptr) return;
  std::vector<std::pair<std::string, EvidenceKind>> suspects;
  for (const auto& [name, node] : fold.world.nodes()) {
    const bool was_here = std::find(here->begin(), here->end(), name) != here->end();
    for (const NodeCharge& one : node.evidence) {
      const bool fits = one.trial == attempt.trial && one.kind != EvidenceKind::suspect &&
          !is_pace(one.kind) && !speaks_against_node(one.kind);
      if (was_here || !fits || is_shared(fold.world, name, one)) continue;
      suspects.emplace_back(name, one.kind);
      break;
    }
  }
  for (const auto& [name, kind] : suspects) {
    add_evidence(fold, name,
        {.at = fold.now,
            .kind = EvidenceKind::suspect,
            .trial = attempt.trial,
            .attempt = attempt.id,
            .detail = fmt::format("{} here, measured elsewhere", word_of(kind))});
  }
}

std::vector<std::string> nodes_failed_under(const World& world, TrialId trial) {
  std::vector<std::string> nodes;
  for (const auto& [name, node] : world.nodes()) {
    const bool failed = std::any_of(node.evidence.begin(), node.evidence.end(),
        [&](const NodeCharge& one) { return one.trial == trial && speaks_against_node(one.kind); });
    if (failed) nodes.push_back(name);
  }
  return nodes;
}

void forget_evidence_of(Fold fold, const Policy& policy, TrialId trial) {
  for (const auto& [name, node] : fold.world.nodes()) {
    if (fold.world.forget_evidence(node, trial) == 0) continue;
    const bool held = is_enough(weigh(node, policy, fold.now), policy);
    if (node.state == NodeState::quarantined && !held)
      trust(fold, node, "let back in: the layout that failed on it is to blame");
  }
}

Probe probe_of(const SweepSpec& sweep, const Point& example) {
  Probe probe{sweep, {}};
  const std::int32_t slots = std::max(1, sweep.cluster.gpus_per_node);
  probe.sweep.models = {{.name = "probe",
      .layers = 2,
      .hidden = 64,
      .ffn = 128,
      .heads = 4,
      .kv_heads = 2,
      .vocab = 256}};
  probe.sweep.measure = {.warmup = 1, .steps = 5, .repeats = 1};
  probe.sweep.policy.attempt.attempt_limit_s = sweep.policy.probe_limit_s;
  // Leave the flags of shardbench out: they may be meant to make it fail.
  if (sweep.runner.is_shardbench()) probe.sweep.runner.args.clear();
  probe.point.nodes = 1;
  probe.point.gpus = slots;
  probe.point.layout.dp = slots;
  probe.point.seq_len = 32;
  probe.point.dtype = example.dtype;
  probe.point.vars = example.vars;
  return probe;
}

void end_probe(Fold fold, const Policy& policy, const AllocationRow& allocation, bool passed,
    const std::string& cause) {
  const NodeRow* row = fold.world.node(allocation.probe_of);
  // A user may have cleared the node.
  if (row == nullptr || row->state != NodeState::probation) return;
  fold.world.record(EndProbe{allocation.id, passed, cause, fold.now});
  if (passed) return trust(fold, *row, "let back in: a short run was measured on it");
  auto node = fold.world.edit(*row);
  ++node->failed_probes;
  quarantine(fold, node, policy, "the short run failed: " + cause);
}

void put_off_probe(Fold fold, const AllocationRow& allocation) {
  const NodeRow* row = fold.world.node(allocation.probe_of);
  if (row == nullptr || row->state != NodeState::probation) return;
  auto node = fold.world.edit(*row);
  node->state = NodeState::quarantined;
  node->until = fold.now;
}

bool probe_is_due(const World& world, Timestamp now) {
  const bool due =
      std::any_of(world.nodes().begin(), world.nodes().end(), [now](const auto& entry) {
        const NodeRow& node = entry.second;
        return node.state == NodeState::quarantined && node.until <= now && node.node != local_node;
      });
  return due && std::any_of(world.sweeps().begin(), world.sweeps().end(), [&](const auto& entry) {
    return !world.index().waiting(entry.first).empty();
  });
}

void let_all_in(Fold fold, const std::string& why) {
  for (const auto& [name, node] : fold.world.nodes()) {
    if (node.state != NodeState::trusted) trust(fold, node, "let back in: " + why);
  }
}

void clear_node(Fold fold, const NodeRow& node, const std::string& who) {
  trust(fold, node, "cleared by " + who);
}

void judge_nodes(Fold fold, const Policy& policy) {
  auto out = static_cast<std::int64_t>(nodes_out(fold.world).size());
  for (const auto& [name, row] : fold.world.nodes()) {
    if (row.state != NodeState::trusted || out >= policy.most_out) continue;
    const Weight weight = weigh(row, policy, fold.now);
    if (!is_enough(weight, policy)) continue;
    auto node = fold.world.edit(row);
    quarantine(fold, node, policy, weight.last);
    ++out;
  }
}

std::vector<std::string> nodes_out(const World& world) {
  std::vector<std::string> out;
  for (const auto& [name, node] : world.nodes()) {
    if (node.state != NodeState::trusted) out.push_back(name);
  }
  return out;
}

bool holds_node_out(const World& world, AllocationId allocation) {
  const auto* held = world.nodes_of(allocation);
  return held != nullptr && std::any_of(held->begin(), held->end(), [&](const auto& name) {
    const NodeRow* node = world.node(name);
    return node != nullptr && node->state != NodeState::trusted;
  });
}

std::string first_node(std::string_view slurm_list) {
  const auto nodes = nodes_in(slurm_list);
  const bool named = !nodes.empty() && nodes.front().find_first_of(" (") == std::string::npos;
  return named ? nodes.front() : "";  // "None assigned"
}

}  // namespace shardsweep
