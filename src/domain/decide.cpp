// SPDX-License-Identifier: Apache-2.0
#include "domain/decide.hpp"

#include "domain/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

/// Assigned and not ended at once, whatever they are predicted to take: each is a folder and a
/// few writes, and what is assigned can only be taken back one by one.
constexpr std::int64_t most_open = 64;

void put(std::vector<Change>& changes, const TrialRow& row, std::string cause) {
  changes.emplace_back(SetTrial{.id = row.id,
                                .state = row.state,
                                .outcome = row.outcome,
                                .cause = std::move(cause),
                                .charged = row.charged,
                                .elsewhere = row.elsewhere,
                                .attempts = row.attempts});
}

/// The smallest micro-batch that ran out of memory, by sweep and lane.
using OomByLane = std::map<std::pair<SweepId, std::string>, const TrialRow*>;

OomByLane out_of_memory(const World& world) {
  OomByLane smallest;
  for (const auto& [id, trial] : world.trials) {
    if (trial.outcome != Outcome::oom) continue;
    auto& entry = smallest[{trial.sweep, trial.lane}];
    if (entry == nullptr || trial.micro_batch < entry->micro_batch) entry = &trial;
  }
  return smallest;
}

/// Named rule: after an OOM every larger micro-batch of the same lane ends skipped.
void skip_after_oom(World& world, Timestamp now, std::vector<Change>& changes) {
  const OomByLane smallest = out_of_memory(world);
  if (smallest.empty()) return;
  for (auto& [id, trial] : world.trials) {
    if (trial.state != State::planned) continue;
    const auto found = smallest.find({trial.sweep, trial.lane});
    if (found == smallest.end() || trial.micro_batch <= found->second->micro_batch) continue;
    trial.state = State::ended;
    trial.outcome = Outcome::skipped;
    const std::string cause = fmt::format("micro_batch {} ran out of memory ({})",
                                          found->second->micro_batch, found->second->slug);
    put(changes, trial, cause);
    changes.emplace_back(AddEvent{
        .at = now, .sweep = trial.sweep, .trial = id, .kind = "skipped", .detail = cause});
  }
}

/// Trials that wait to be assigned, in order, by sweep.
std::map<SweepId, std::vector<TrialRow*>> waiting_trials(World& world) {
  std::map<SweepId, std::vector<TrialRow*>> waiting;
  for (auto& [id, trial] : world.trials) {
    if (trial.state == State::planned && !trial.hidden) waiting[trial.sweep].push_back(&trial);
  }
  for (auto& [sweep, trials] : waiting) {
    std::stable_sort(trials.begin(), trials.end(), [](const TrialRow* a, const TrialRow* b) {
      return a->position < b->position;
    });
  }
  return waiting;
}

bool live(const AllocationRow& row) {
  return row.state != State::ended;
}

bool takes_work(const AllocationRow& row) {
  return live(row) && !row.draining && !row.said_bye && row.job_state != JobState::ended;
}

bool local_machine_busy(const World& world) {
  return std::any_of(world.allocations.begin(), world.allocations.end(), [](const auto& entry) {
    return live(entry.second) && entry.second.backend == "local";
  });
}

std::int64_t live_allocations(const World& world, SweepId sweep) {
  return std::count_if(
      world.allocations.begin(), world.allocations.end(),
      [&](const auto& entry) { return live(entry.second) && entry.second.sweep == sweep; });
}

bool budget_spent(const SweepFacts& facts) {
  return facts.policy.max_gpu_hours > 0 && facts.gpu_hours_used >= facts.policy.max_gpu_hours;
}

class Decider {
 public:
  Decider(World& world, const DecideInput& input, std::vector<Change>& changes)
      : world_(world), input_(input), changes_(changes), waiting_(waiting_trials(world)) {}

  void run() {
    for (const SweepRow& sweep : world_.sweeps) {
      const auto facts = input_.sweeps.find(sweep.id);
      if (facts == input_.sweeps.end() || sweep.state != SweepState::active) continue;
      if (budget_spent(facts->second)) {
        stop_for_budget(sweep, facts->second);
        continue;
      }
      make_allocation(sweep, facts->second);
      for (auto& [id, allocation] : world_.allocations) {
        if (allocation.sweep == sweep.id && takes_work(allocation)) {
          assign_ahead(allocation, facts->second.policy);
        }
      }
    }
    drain_idle();
  }

 private:
  std::vector<TrialRow*>& waiting(SweepId sweep) { return waiting_[sweep]; }

  void stop_for_budget(const SweepRow& sweep, const SweepFacts& facts) {
    for (TrialRow* trial : waiting(sweep.id)) {
      trial->state = State::ended;
      trial->outcome = Outcome::cancelled;
      put(changes_, *trial,
          fmt::format("limits.max_gpu_hours ({:g}) is spent", facts.policy.max_gpu_hours));
    }
    waiting(sweep.id).clear();
  }

  void make_allocation(const SweepRow& sweep, const SweepFacts& facts) {
    if (waiting(sweep.id).empty()) return;
    if (facts.backend == "local" && local_machine_busy(world_)) return;
    if (live_allocations(world_, sweep.id) >= facts.policy.max_allocations) return;
    AllocationRow row;
    row.id = world_.next_allocation++;
    row.sweep = sweep.id;
    row.token = input_.random_hex(8);
    row.nodes = std::max(1, waiting(sweep.id).front()->nodes);
    row.job_name = fmt::format("{}-n{}_{}", sweep.name.substr(0, 24), row.nodes, row.token);
    row.dir = input_.allocation_dir(row.token);
    row.backend = facts.backend;
    row.slots_per_node = facts.slots_per_node;
    row.created_at = input_.now;
    changes_.emplace_back(PutAllocation{.row = row});
    world_.allocations.emplace(row.id, std::move(row));
  }

  void assign_ahead(const AllocationRow& allocation, const Policy& policy) {
    double ahead = 0;
    std::int64_t assigned = 0;
    std::int64_t open = 0;
    for (const auto& [id, attempt] : world_.attempts) {
      if (attempt.allocation != allocation.id) continue;
      ++assigned;
      if (attempt.state == State::ended) continue;
      ++open;
      ahead += world_.trials.at(attempt.trial).predicted_s;
    }
    auto& trials = waiting(allocation.sweep);
    auto next = trials.begin();
    while (next != trials.end() && ahead <= policy.lane_ahead_s && open < most_open &&
           !is_full(assigned, policy)) {
      TrialRow* trial = *next;
      if (std::max(1, trial->nodes) != allocation.nodes) {
        ++next;
        continue;
      }
      assign(*trial, allocation);
      ahead += trial->predicted_s;
      ++assigned;
      ++open;
      next = trials.erase(next);
    }
  }

  void assign(TrialRow& trial, const AllocationRow& allocation) {
    AttemptRow attempt;
    attempt.id = world_.next_attempt++;
    attempt.trial = trial.id;
    attempt.number = ++trial.attempts;
    attempt.allocation = allocation.id;
    attempt.nonce = input_.random_hex(32);
    attempt.dir = input_.attempt_dir(trial, attempt.number);
    trial.state = State::queued;
    changes_.emplace_back(PutAttempt{.row = attempt});
    put(changes_, trial, "");
    world_.attempts.emplace(attempt.id, std::move(attempt));
  }

  /// An allocation without work is released at once.
  void drain_idle() {
    for (auto& [id, allocation] : world_.allocations) {
      if (!takes_work(allocation) || !open_attempts(world_, id).empty()) continue;
      if (active(allocation.sweep) && has_work_for(allocation) && !is_full(allocation))
        continue;
      allocation.draining = true;
      changes_.emplace_back(PutAllocation{.row = allocation});
    }
  }

  static bool is_full(std::int64_t assigned, const Policy& policy) {
    return policy.lane_length > 0 && assigned >= policy.lane_length;
  }
  bool is_full(const AllocationRow& allocation) const {
    const auto facts = input_.sweeps.find(allocation.sweep);
    const auto assigned = std::count_if(
        world_.attempts.begin(), world_.attempts.end(),
        [&](const auto& entry) { return entry.second.allocation == allocation.id; });
    return facts != input_.sweeps.end() && is_full(assigned, facts->second.policy);
  }

  bool has_work_for(const AllocationRow& allocation) const {
    return std::any_of(world_.trials.begin(), world_.trials.end(), [&](const auto& entry) {
      const TrialRow& trial = entry.second;
      return trial.sweep == allocation.sweep && trial.state == State::planned &&
             !trial.hidden && std::max(1, trial.nodes) == allocation.nodes;
    });
  }

  bool active(SweepId id) const {
    return std::any_of(world_.sweeps.begin(), world_.sweeps.end(), [&](const SweepRow& sweep) {
      return sweep.id == id && sweep.state == SweepState::active;
    });
  }

  World& world_;
  const DecideInput& input_;
  std::vector<Change>& changes_;
  std::map<SweepId, std::vector<TrialRow*>> waiting_;
};

std::optional<SweepState> state_of(const World& world, SweepId id) {
  for (const SweepRow& sweep : world.sweeps) {
    if (sweep.id == id) return sweep.state;
  }
  return std::nullopt;
}

}  // namespace

void decide(World& world, const DecideInput& input, std::vector<Change>& changes) {
  skip_after_oom(world, input.now, changes);
  Decider(world, input, changes).run();
}

Orders orders_for(const World& world, const AllocationRow& allocation) {
  Orders orders;
  const auto state = state_of(world, allocation.sweep);
  for (const AttemptId id : open_attempts(world, allocation.id)) {
    const AttemptRow& attempt = world.attempts.at(id);
    orders.assign.push_back(id);
    const TrialRow& trial = world.trials.at(attempt.trial);
    const bool unwanted =
        attempt.revoked || trial.state == State::ended || state == SweepState::cancelled;
    if (unwanted) {
      orders.cancel.push_back(id);
    } else if (attempt.state == State::queued &&
               (trial.hidden || state == SweepState::paused)) {
      orders.revoke.push_back(id);
    }
  }
  orders.drain = allocation.draining;
  return orders;
}

bool anything_alive(const World& world) {
  const bool allocations = std::any_of(world.allocations.begin(), world.allocations.end(),
                                       [](const auto& entry) { return live(entry.second); });
  if (allocations) return true;
  return std::any_of(world.trials.begin(), world.trials.end(), [&](const auto& entry) {
    const TrialRow& trial = entry.second;
    const bool to_be_started =
        !trial.hidden && state_of(world, trial.sweep) == SweepState::active;
    return trial.state != State::ended && (trial.state != State::planned || to_be_started);
  });
}

}  // namespace shardsweep
