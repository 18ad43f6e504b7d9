// SPDX-License-Identifier: Apache-2.0
// Decision: Knowledge that takes several looks is kept in rows, so that `tick` from cron
// decides as a daemon does.
#include "fleet/starts.hpp"

#include "fleet/allocation.hpp"
#include "fleet/control.hpp"
#include "fleet/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

/// True if the outcome says nothing about the job's request: a node failed, or other jobs had
/// precedence.
bool says_nothing_of_the_job(Outcome outcome) {
  return outcome == Outcome::node_failure || outcome == Outcome::preempted;
}

bool was_let_back_in(const NodeRow& node, Timestamp since) {
  return node.state == NodeState::trusted && node.since > since;
}

/// True if the job was refused while it excluded nodes that have been let back in since.
bool excluded_too_many(const AllocationRow& allocation, const World& world) {
  if (allocation.submission != Submission::refused) return false;
  return std::any_of(world.nodes().begin(), world.nodes().end(),
      [&](const auto& entry) { return was_let_back_in(entry.second, allocation.created_at); });
}

/// True if its nodes failed their check and were let back in since.
bool has_mended_nodes(const AllocationRow& allocation, const World& world) {
  bool any = false;
  for (const ControlRow& row : world.controls()) {
    if (row.allocation != allocation.id || !row.blamed) continue;
    const NodeRow* node = world.node(row.node);
    if (node == nullptr || !was_let_back_in(*node, row.at)) return false;
    any = true;
  }
  return any;
}

/// A user's own scancel is no failure, but the next job would only wait in its place.
std::string reason_of_cancelled(std::int64_t jobs, const SweepRow& sweep) {
  if (jobs > 1)
    return fmt::format(
        "paused: {} jobs in a row did not start, and you have cancelled the last one "
        "(scancel). "
        "'shardsweep resume {}' submits new ones.",
        jobs, sweep.name);
  return fmt::format(
      "paused: you have cancelled its job before it started (scancel). 'shardsweep resume {}' "
      "submits a new one.",
      sweep.name);
}

std::string reason(std::int64_t failures, const std::string& why, const std::string& node,
    const std::string& log) {
  const auto which = failures == 1
      ? std::string("its allocation")
      : fmt::format("{} allocations in a row failed, the last one", failures);
  return fmt::format(
      "paused: {} {}{}{} (see {})", which, why, node.empty() ? "" : ", on node ", node, log);
}

/// Node on which a job began but no lead started, or the node of a one-node job whose agent never
/// answered its lead although nobody ended the job. Empty: unknown, or no evidence about the node.
std::string node_without_agents(const AllocationRow& allocation, const World& world) {
  if (allocation.end_outcome && !allocation.own_cancel) return "";
  if (allocation.claimed_at == 0) return world.begun_on(allocation);
  const bool unanswered = allocation.nodes == 1 &&
      (allocation.end_reason == "node lost" || allocation.end_reason.starts_with("wrong clock"));
  const std::string node = unanswered ? world.lead_node(allocation.id) : "";
  return node == local_node ? "" : node;
}

/// Node that the lead of a job on several nodes blamed before anything started. Empty: none.
std::string silent_node(const AllocationRow& allocation, const World& world) {
  const bool lost = allocation.nodes > 1 && allocation.end_reason == "node lost";
  return lost ? world.silent_on(allocation) : "";
}

/// True if the lead ended without a report, and none of its started attempts has ended.
bool died_at_work(const AllocationRow& allocation, const World& world) {
  if (allocation.said_bye || allocation.end_outcome) return false;
  bool runs = false;
  for (const AttemptId id : world.index().assigned_to(allocation.id).all) {
    const AttemptRow* attempt = world.attempt(id);
    if (attempt == nullptr || attempt->started_at == 0) continue;
    if (attempt->state == State::ended) return false;
    runs = true;
  }
  return runs;
}

/// Charges of one kind against a node.
std::int64_t charges_of(const World& world, const std::string& name, EvidenceKind kind) {
  const NodeRow* node = world.node(name);
  return node == nullptr ? 0
                         : std::count_if(node->evidence.begin(), node->evidence.end(),
                               [&](const NodeCharge& one) { return one.kind == kind; });
}

}  // namespace

Start judge_start(const AllocationRow& allocation, const World& world, Timestamp now) {
  if (allocation.started) return died_at_work(allocation, world) ? Start::failed : Start::began;
  // An allocation that was drained for want of work has failed at nothing. It has failed if it gave
  // its work back, or was drained because its nodes failed their check.
  const bool is_bad = has_bad_node(world, allocation.id);
  if (allocation.draining && !allocation.gave_back && !is_bad) return Start::unwanted;
  if (hours_went_by(allocation, now)) return Start::unwanted;
  if (excluded_too_many(allocation, world)) return Start::failed_node;
  if (has_mended_nodes(allocation, world)) return Start::unwanted;
  if (is_bad) return Start::failed_node;
  const bool elsewhere = allocation.end_outcome && says_nothing_of_the_job(*allocation.end_outcome);
  return elsewhere ? Start::failed_node : Start::failed;
}

std::optional<std::string> count_start(Fold fold, const Policy& policy,
    const AllocationRow& allocation, const std::string& why, const std::string& log) {
  const SweepRow* known = fold.world.sweep(allocation.sweep);
  Start start = judge_start(allocation, fold.world, fold.now);
  if (known == nullptr || start == Start::unwanted) return std::nullopt;
  std::string node;
  if (start == Start::failed) node = node_without_agents(allocation, fold.world);
  // A node that fails again says nothing new about the site: an idle node takes each new job.
  if (charges_of(fold.world, node, EvidenceKind::unstarted) > 0) start = Start::failed_node;
  add_evidence(fold, node, {.at = fold.now, .kind = EvidenceKind::unstarted, .detail = why});
  if (start == Start::failed && node.empty()) {
    node = silent_node(allocation, fold.world);
    if (charges_of(fold.world, node, EvidenceKind::silent) > 1) start = Start::failed_node;
  }
  auto sweep = fold.world.edit(*known);
  std::optional<std::string> paused;
  if (start == Start::began) {
    sweep->failed_starts = sweep->failed_nodes = 0;
  } else {
    std::int32_t& failures = start == Start::failed ? sweep->failed_starts : sweep->failed_nodes;
    const std::int64_t most =
        start == Start::failed ? policy.retry_failed_starts : policy.retry_failed_nodes;
    ++failures;
    if (failures >= most && sweep->state == SweepState::active) {
      const bool by_user = allocation.end_outcome == Outcome::cancelled && !allocation.own_cancel;
      paused = by_user ? reason_of_cancelled(failures, *known) : reason(failures, why, node, log);
      sweep->state = SweepState::paused;
      sweep->failed_starts = sweep->failed_nodes = 0;
    }
  }
  sweep.done();
  if (!paused) return paused;
  // Nodes are judged first: nothing is decided for a paused sweep, and its nodes have to be left
  // out before anybody reads that it is paused.
  judge_nodes(fold, policy);
  fold.world.record(
      AddEvent{.at = fold.now, .sweep = sweep->id, .kind = EventKind::paused, .detail = *paused});
  return paused;
}

std::string stop_for_programs(Fold fold, const SweepRow& sweep, const std::string& change) {
  if (sweep.state != SweepState::active) return {};
  std::string why = fmt::format(
      "paused: {}. Restore the program, or submit the sweep file again to use it as it is now. "
      "Then run 'shardsweep resume {}'.",
      change, sweep.name);
  fold.world.edit(sweep)->state = SweepState::paused;
  fold.world.record(
      AddEvent{.at = fold.now, .sweep = sweep.id, .kind = EventKind::paused, .detail = why});
  return why;
}

}  // namespace shardsweep
