// SPDX-License-Identifier: Apache-2.0
#include "fleet/notices.hpp"

#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"
#include "fleet/starts.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

std::string name_of(const World& world, SweepId id) {
  const SweepRow* sweep = world.sweep(id);
  return sweep == nullptr ? "" : sweep->name;
}

/// True if the sweep holds nodes. Only such a sweep can stall; waiting in a queue may take any
/// time.
bool holds_nodes(const World& world, SweepId id) {
  return std::any_of(
      world.allocations().begin(), world.allocations().end(), [id](const auto& entry) {
        const AllocationRow& row = entry.second;
        return row.sweep == id && row.state != State::ended && row.claimed_at != 0;
      });
}

}  // namespace

void Watcher::see(const World& world, const std::vector<Change>& committed, Timestamp now) {
  for (const Change& change : committed) {
    if (const auto* attempt = std::get_if<PutAttempt>(&change)) {
      if (const TrialRow* trial = world.trial(attempt->row.trial)) progress_[trial->sweep] = now;
    }
    const auto* event = std::get_if<AddEvent>(&change);
    if (event == nullptr) continue;
    if (event->kind == event_of(NodeState::quarantined))
      notices_.push_back({NotifyEvent::node_quarantined, "", "node " + event->detail, now});
    if (event->kind == EventKind::regressed) {
      const std::string name = name_of(world, event->sweep);
      notices_.push_back({NotifyEvent::regression, name,
          fmt::format("sweep '{}' became slower: {}", name, event->detail), now});
    }
    if (event->kind == EventKind::paused) {
      const std::string name = name_of(world, event->sweep);
      notices_.push_back(
          {NotifyEvent::stalled, name, fmt::format("sweep '{}' {}", name, event->detail), now});
    }
  }
  see_ends(world, now);
}

void Watcher::see_ends(const World& world, Timestamp now) {
  const std::set<SweepId> open = open_sweeps(world);
  for (const auto& [id, sweep] : world.sweeps()) {
    if (open.contains(sweep.id)) {
      if (open_.insert(sweep.id).second && sweep.remeasuring) again_.insert(sweep.id);
    } else if (open_.erase(sweep.id) > 0 && again_.erase(sweep.id) == 0) {
      const bool cancelled = sweep.state == SweepState::cancelled;
      notices_.push_back({NotifyEvent::sweep_ended, sweep.name,
          fmt::format("sweep '{}' {}", sweep.name, cancelled ? "is cancelled" : "has ended"), now});
    }
  }
}

void Watcher::look_failed(const std::string& why, Timestamp now) {
  if (!blind_since_) blind_since_ = now;
  blind_why_ = why;
}

void Watcher::look_succeeded(Timestamp now) {
  if (std::exchange(blind_told_, false))
    notices_.push_back({NotifyEvent::blind, "",
        fmt::format(
            "the scheduler answers again after {:.0f} min", to_seconds(now - *blind_since_) / 60),
        now});
  blind_since_.reset();
}

void Watcher::see_stalls(const World& world, const Policy& policy, Timestamp now) {
  for (const auto& [id, sweep] : world.sweeps()) {
    const bool runs = sweep.state == SweepState::active && open_.contains(sweep.id) &&
        holds_nodes(world, sweep.id);
    if (!runs) {
      progress_.erase(sweep.id);
      stalled_.erase(sweep.id);
      continue;
    }
    const Timestamp since = progress_.emplace(sweep.id, now).first->second;
    if (to_seconds(now - since) < policy.stall_s) {
      stalled_.erase(sweep.id);
    } else if (stalled_.insert(sweep.id).second) {
      notices_.push_back({NotifyEvent::stalled, sweep.name,
          fmt::format("sweep '{}' holds nodes, but no attempt started or ended for {:.0f} min",
              sweep.name, to_seconds(now - since) / 60),
          now});
    }
  }
}

void Watcher::see_blindness(const Policy& policy, Timestamp now) {
  if (!blind_since_ || blind_told_) return;
  const double blind_s = to_seconds(now - *blind_since_);
  if (blind_s < policy.blind_s) return;
  blind_told_ = true;
  notices_.push_back({NotifyEvent::blind, "",
      fmt::format("the scheduler has not answered for {:.0f} min: {}", blind_s / 60, blind_why_),
      now});
}

std::vector<Notice> Watcher::take(const World& world, const Policy& policy, Timestamp now) {
  see_stalls(world, policy, now);
  see_blindness(policy, now);
  return std::exchange(notices_, {});
}

}  // namespace shardsweep
