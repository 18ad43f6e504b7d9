// SPDX-License-Identifier: Apache-2.0
#include "fleet/decide.hpp"

#include "fleet/allocation.hpp"
#include "fleet/finals.hpp"
#include "fleet/fold.hpp"
#include "fleet/lanes.hpp"
#include "fleet/nodes.hpp"
#include "fleet/outside.hpp"
#include "fleet/refusals.hpp"
#include "fleet/starts.hpp"
#include "fleet/trial_change.hpp"
#include "search/sweep_search.hpp"
#include "slurm/words/array.hpp"

#include <shardsweep/invariant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace shardsweep {

namespace {

/// Most attempts that an allocation may hold unfinished, however short they are: each costs a
/// folder and a few writes, and assigned attempts can only be taken back one by one.
constexpr std::int64_t most_open = 64;

/// Limit for one pass: each assignment is a transaction's rows, a folder and a few writes.
constexpr std::int64_t most_assigned = 512;

/// 48 bits: with 32 of them a collision is likely among 10^5 allocations, and a token is
/// unique.
constexpr int token_digits = 12;

/// `kind`: by a rule, or spared by a search. The detail is the cause, or `detail`.
void skip(World& world, const TrialRow& trial, Timestamp now, std::string cause,
    EventKind kind = EventKind::skipped, std::string detail = "") {
  end_trial(*world.edit(trial), {.outcome = Outcome::skipped, .cause = cause});
  world.record(AddEvent{.at = now,
      .sweep = trial.sweep,
      .trial = trial.id,
      .kind = kind,
      .detail = detail.empty() ? std::move(cause) : std::move(detail)});
}

/// Named rule: after an OOM every larger micro-batch of the same lane ends skipped.
void skip_after_oom(World& world, const DecideInput& input) {
  for (const auto& [id, smallest] : world.index().beyond_memory()) {
    const TrialRow& trial = world.trials().at(id);
    const TrialRow& out_of_memory = world.trials().at(smallest);
    const auto facts = input.sweeps.find(trial.sweep);
    if (facts == input.sweeps.end() || !facts->second.skip_larger_after_oom) continue;
    skip(world, trial, input.now,
        fmt::format("micro_batch {} ran out of memory ({})", out_of_memory.micro_batch,
            out_of_memory.slug));
  }
}

/// Named rule: what a trainer has refused twice with equal words is not started a third time.
void skip_refused(World& world, const DecideInput& input) {
  for (auto& [id, why] : refused_alike(world)) {
    const TrialRow& trial = world.trials().at(id);
    if (input.sweeps.contains(trial.sweep))
      skip(world, trial, input.now, std::move(why), EventKind::ruled_out);
  }
}

/// Trials that wait to be assigned, in order.
std::vector<const TrialRow*> waiting_trials(const World& world, SweepId sweep) {
  std::vector<std::pair<std::int64_t, TrialId>> order;
  for (const auto& [nodes, queue] : world.index().waiting(sweep))
    order.insert(order.end(), queue.order().begin(), queue.order().end());
  std::sort(order.begin(), order.end());
  std::vector<const TrialRow*> trials;
  trials.reserve(order.size());
  for (const auto& [position, id] : order)
    trials.push_back(world.trial(id));
  return trials;
}

/// The allocation that uses this machine; null if the machine is free. An allocation whose job has
/// ended no longer uses it, though its files may still have to be read.
const AllocationRow* on_this_machine(const World& world) {
  const auto& allocations = world.allocations();
  const auto found = std::find_if(allocations.begin(), allocations.end(), [](const auto& entry) {
    const AllocationRow& row = entry.second;
    return live(row) && row.job_state != JobState::ended && row.backend == Backend::local;
  });
  return found == allocations.end() ? nullptr : &found->second;
}

bool budget_spent(const SweepFacts& facts) {
  return facts.policy.max_gpu_hours > 0 && facts.gpu_hours_used >= facts.policy.max_gpu_hours;
}

class Decider {
 public:
  Decider(World& world, const DecideInput& input)
      : world_(world),
        input_(input),
        site_limits_(world, input.sweeps, {input.now, input.week_minute, input.week_second}) {}

  void run() {
    for (const auto& entry : world_.sweeps()) {
      const SweepRow& sweep = entry.second;
      const auto facts = input_.sweeps.find(sweep.id);
      if (facts == input_.sweeps.end() || sweep.state != SweepState::active) continue;
      in_work_of(sweep.id, [&] { decide_for(sweep, facts->second); });
    }
    drain_idle();
  }
  [[nodiscard]] bool has_more() const { return assigned_ >= most_assigned; }

 private:
  void decide_for(const SweepRow& sweep, const SweepFacts& facts) {
    if (budget_spent(facts)) return stop_for_budget(sweep, facts);
    if (is_being_proved(facts)) {
      held_ = "Waits for " + facts.proof +
          ", which measures the memory of this sweep's fastest layouts on one GPU.";
      if (held_ != sweep.held) world_.edit(sweep)->held = held_;
      return;
    }
    search(sweep.id);
    give_back_nodes(sweep.id, facts);
    held_.clear();
    judge_nodes({world_, input_.now}, facts.policy);
    if (facts.backend == Backend::local && pause_unwell(sweep)) return;
    drain_unwell(sweep.id);
    probe_nodes(sweep, facts);
    shares_.clear();
    make_allocations(sweep, facts);
    if (held_ != sweep.held) world_.edit(sweep)->held = held_;
    for (const auto& [allocation_id, allocation] : world_.allocations()) {
      if (allocation.sweep != sweep.id || !takes_work(allocation)) continue;
      Share& share = shares_[allocation.nodes];
      // A job may wait in the queue for hours: until it starts, it gets no more work than would
      // justify a lane.
      const bool has_share = share.waiting_lanes > 0 || allocation.claimed_at != 0;
      --share.waiting_lanes;
      if (has_share) assign_ahead(allocation, facts.policy, share.predicted_s);
    }
  }
  /// True if its proof has unfinished trials and was not cancelled.
  [[nodiscard]] bool is_being_proved(const SweepFacts& facts) const {
    if (facts.proof.empty()) return false;
    return std::any_of(world_.sweeps().begin(), world_.sweeps().end(), [&](const auto& entry) {
      return entry.second.name == facts.proof && entry.second.state != SweepState::cancelled &&
          world_.index().is_open(entry.first);
    });
  }
  [[nodiscard]] bool any_waiting(SweepId sweep) const {
    return !world_.index().waiting(sweep).empty();
  }
  /// First trial to assign; null: none waits.
  [[nodiscard]] const TrialRow* next_waiting(SweepId sweep) const {
    if (const auto ranked = ranked_.find(sweep); ranked != ranked_.end())
      return ranked->second.empty() ? nullptr : ranked->second.front();
    const TrialRow* first = nullptr;
    for (const auto& [nodes, queue] : world_.index().waiting(sweep)) {
      const TrialRow* trial = world_.trial(queue.first());
      if (first == nullptr ||
          std::pair(trial->position, trial->id) < std::pair(first->position, first->id))
        first = trial;
    }
    return first;
  }
  /// First waiting trial that needs this many nodes and no more time than their partition allows.
  [[nodiscard]] const TrialRow* next_waiting(SweepId sweep, std::int32_t nodes) const {
    if (const auto ranked = ranked_.find(sweep); ranked != ranked_.end()) {
      const auto found =
          std::find_if(ranked->second.begin(), ranked->second.end(), [&](const TrialRow* trial) {
            return node_count(*trial) == nodes && !too_long(sweep, nodes, trial->predicted_s);
          });
      return found == ranked->second.end() ? nullptr : *found;
    }
    const TrialQueues& queues = world_.index().waiting(sweep);
    const auto queue = queues.find(nodes);
    if (queue == queues.end()) return nullptr;
    const bool all = !too_long(sweep, nodes, queue->second.predicted().longest_s());
    for (const auto& [position, id] : queue->second.order()) {
      const TrialRow* trial = world_.trial(id);
      if (all || !too_long(sweep, nodes, trial->predicted_s)) return trial;
    }
    return nullptr;
  }
  /// Why no job may hold an attempt that takes `predicted_s`.
  [[nodiscard]] std::optional<std::string> too_long(
      SweepId sweep, std::int32_t nodes, double predicted_s) const {
    const auto found = input_.sweeps.find(sweep);
    if (found == input_.sweeps.end() || found->second.backend != Backend::slurm)
      return std::nullopt;
    const SweepFacts& facts = found->second;
    return beyond_time(facts, nodes, least_time_s(predicted_s, facts.policy));
  }

  void stop_for_budget(const SweepRow& sweep, const SweepFacts& facts) {
    for (const TrialRow* trial : waiting_trials(world_, sweep.id)) {
      end_trial(*world_.edit(*trial),
          {.outcome = Outcome::cancelled,
              .cause = fmt::format("The sweep has used its limits.max_gpu_hours ({:g}).",
                  facts.policy.max_gpu_hours),
              .cancelled_by = CancelledBy::budget});
    }
    // Draining brings back the trials that were assigned ahead and have not started.
    for (const auto& [id, allocation] : world_.allocations())
      if (allocation.sweep == sweep.id && takes_work(allocation)) drain(allocation);
  }

  /// Plans trials again that the search had skipped, if measurements now contradict the reason. A
  /// row that is not in memory stays skipped until the daemon has read it.
  void reopen(SweepSearch& search, std::vector<const TrialRow*>& trials) {
    for (const auto id : search.to_reopen()) {
      const TrialRow* trial = world_.trial(id);
      if (trial == nullptr || trial->hidden || trial->outcome != Outcome::skipped) continue;
      plan(*world_.edit(*trial));
      world_.record(AddEvent{.at = input_.now,
          .sweep = trial->sweep,
          .trial = trial->id,
          .kind = EventKind::reopened,
          .detail = "The search continues: a later measurement contradicts the reason for which it "
                    "had stopped."});
      trials.push_back(trial);
    }
  }
  /// Planning clears the skip: it must not be restored later as the trial's earlier outcome.
  static void plan(TrialRow& trial) {
    trial.state = State::planned;
    trial.outcome.reset();
    trial.cause.clear();
  }

  /// Sorts waiting trials as the sweep's search asks, and ends those that the search rules out.
  void search(SweepId sweep) {
    const auto found = input_.searches.find(sweep);
    if (found == input_.searches.end()) return;
    found->second->observe(world_.changes());
    const auto [ranked_before, fresh] = ranked_.try_emplace(sweep);
    auto& trials = ranked_before->second;
    if (fresh) trials = waiting_trials(world_, sweep);
    std::erase_if(trials, [](const TrialRow* trial) { return trial->state != State::planned; });
    reopen(*found->second, trials);
    const auto finals = taken_finals(trials);  // a search has nothing to say of them
    auto advice = found->second->advise(trials);
    for (const auto& one : advice.skip) {
      const TrialRow& trial = world_.trials().at(one.trial);
      INVARIANT(trial.state == State::planned, "a search leaves out what waits", trial.id,
          trial.state, trial.outcome);
      const bool spared = one.after_oom_name.empty();
      if (spared)
        skip(world_, trial, input_.now, one.cause, EventKind::spared, one.of_cell);
      else
        skip(world_, trial, input_.now,
            fmt::format("{} {}, which ran out of memory.", one.cause, out_of_memory(one)));
    }
    trials = std::move(advice.order);
    trials.insert(trials.end(), finals.begin(), finals.end());
  }
  [[nodiscard]] std::string out_of_memory(const SweepSearch::Skip& skip) const {
    const auto* other = world_.trial(skip.after_oom_of);
    return other == nullptr ? skip.after_oom_name : other->slug;
  }
  [[nodiscard]] bool is_searched(SweepId sweep) const { return input_.searches.contains(sweep); }

  /// Pauses a sweep on an unwell machine: there is no other, and going on would measure its faults.
  bool pause_unwell(const SweepRow& sweep) {
    const NodeRow* here = world_.node(std::string(local_node));
    if (here == nullptr || here->state == NodeState::trusted) return false;
    world_.edit(sweep)->state = SweepState::paused;
    world_.record(AddEvent{.at = input_.now,
        .sweep = sweep.id,
        .kind = EventKind::paused,
        .detail = fmt::format("paused: this machine is unhealthy: {}. Repair it, then run "
                              "'shardsweep nodes --clear {}' and 'shardsweep resume'.",
            here->reason, local_node)});
    return true;
  }

  void drain(const AllocationRow& allocation) { world_.edit(allocation)->draining = true; }

  void drain_unwell(SweepId sweep) {
    for (const auto& [id, allocation] : world_.allocations()) {
      if (allocation.sweep != sweep || !takes_work(allocation)) continue;
      if (holds_node_out(world_, id)) drain(allocation);
    }
  }

  /// Probes nodes while there is work that they could do again.
  void probe_nodes(const SweepRow& sweep, const SweepFacts& facts) {
    if (facts.backend != Backend::slurm) return;
    for (const auto& [name, node] : world_.nodes()) {
      const bool due = node.state == NodeState::quarantined && node.until <= input_.now;
      const double needed_s = needed_time_s(facts.policy.probe_limit_s, facts.policy);
      if (!due || name == local_node || !any_waiting(sweep.id)) continue;
      if (site_limits_.refuses(facts, 1, needed_s)) continue;
      begin_probation(node);
      AllocationRow row = new_allocation(sweep, facts, 1, input_.random_hex(token_digits));
      row.probe_of = name;
      row.time_limit_s = site_limits_.time_within(
          facts, 1, wall_time_s(0, facts.policy.probe_limit_s, facts.policy), needed_s);
      row.deadline = site_limits_.closes_at(facts);
      world_.add(std::move(row));
    }
    if (!any_waiting(sweep.id)) give_up_probes(sweep.id);
  }
  void begin_probation(const NodeRow& row) {
    auto node = world_.edit(row);
    node->state = NodeState::probation;
    node->since = input_.now;
  }

  /// Ends probes of nodes that no sweep waits for any more.
  void give_up_probes(SweepId sweep) {
    for (const auto& [id, allocation] : world_.allocations()) {
      const bool idle = allocation.sweep == sweep && live(allocation) &&
          !allocation.probe_of.empty() && !allocation.draining && allocation.claimed_at == 0;
      if (idle && !world_.index().is_open(sweep)) drain(allocation);
    }
  }

  /// One machine is one allocation; a cluster gives one per node count and more where the work
  /// is worth it, small ones first: they start sooner, and a large one that waits for its
  /// nodes holds none of them up.
  void make_allocations(const SweepRow& sweep, const SweepFacts& facts) {
    if (facts.backend == Backend::outside) return hand_out(sweep, facts);
    const TrialRow* first = next_waiting(sweep.id);
    if (first == nullptr) return;
    if (facts.backend == Backend::local) {
      const auto* other = on_this_machine(world_);
      const auto* holder = other == nullptr ? nullptr : world_.sweep(other->sweep);
      if (holder != nullptr && holder->id != sweep.id)
        held_ = fmt::format("Waits for {}, which uses this machine now.", holder->name);
      const bool room = other == nullptr && within_limits(world_, sweep.id, facts, 1);
      Demand one{.nodes = node_count(*first)};
      one.longest_s = first->predicted_s;
      if (room && is_welcome(facts, one))
        make_allocation(sweep, facts, one, input_.random_hex(token_digits));
      return;
    }
    std::vector<Demand> may_spread;
    for (Demand demand : demands(sweep.id)) {
      if (next_waiting(sweep.id, demand.nodes) == nullptr) continue;
      // A search learns from one trial before it chooses the next.
      const bool alone = is_searched(sweep.id) || only_finals_wait(sweep.id, demand.nodes);
      demand.allocations = alone ? 1 : lanes_for_work(demand, facts.policy);
      const bool spreads = !alone && input_.stays && facts.policy.lane_length == 0;
      if (spreads) {
        const auto lanes = static_cast<double>(std::min(most_allocations(facts), demand.trials));
        shares_[demand.nodes] = {demand.allocations, demand.predicted_s / (2 * lanes)};
      }
      make_lanes(sweep, facts, demand);
      if (spreads) may_spread.push_back(demand);
    }
    for (Demand& demand : may_spread) {
      demand.allocations =
          lanes_for_idle_nodes(world_, sweep.id, demand, idle_now(facts, demand.nodes));
      make_lanes(sweep, facts, demand);
    }
  }
  /// Number of idle nodes, if Slurm's answer about them is recent enough.
  [[nodiscard]] std::int64_t idle_now(const SweepFacts& facts, std::int32_t nodes) const {
    constexpr double holds_s = 60;
    const Timestamp asked_at = facts.site.idle_at;
    if (asked_at == 0 || to_seconds(input_.now - asked_at) > holds_s) return 0;
    return idle_nodes_left(world_, idle_nodes(facts, nodes), asked_at);
  }

  void make_lanes(const SweepRow& sweep, const SweepFacts& facts, Demand& demand) {
    std::string array;
    for (std::int64_t made = 0; demand.live < demand.allocations &&
         within_limits(world_, sweep.id, facts, demand.nodes) && is_welcome(facts, demand);
         ++made) {
      make_allocation(sweep, facts, demand, next_token(facts.policy, made, array));
      ++demand.live;
    }
  }

  /// Hands points out to somebody who measures them elsewhere: an allocation for each, which takes
  /// no other trial.
  void hand_out(const SweepRow& sweep, const SweepFacts& facts) {
    const auto wanted = input_.wanted.find(sweep.id);
    if (wanted == input_.wanted.end()) return;
    for (std::int64_t left = wanted->second.points; left > 0; --left) {
      const std::string& slug = wanted->second.trial;
      const TrialRow* next =
          slug.empty() ? next_waiting(sweep.id) : waiting_trial(world_, sweep.id, slug);
      if (next == nullptr) return;
      const AllocationRow& row = world_.add(outside_allocation(
          new_allocation(sweep, facts, node_count(*next), input_.random_hex(token_digits)),
          sweep.name, wanted->second, input_.now));
      assign(*next, row);
      hold_outside({world_, input_.now}, facts.policy, row);
      search(sweep.id);
    }
  }

  /// True if only finals wait. Finals are compared, so that one allocation runs them all.
  [[nodiscard]] bool only_finals_wait(SweepId sweep, std::int32_t nodes) const {
    const TrialRow* first = next_waiting(sweep, nodes);
    return first != nullptr && first->final_of != 0;
  }

  /// The first reason against one more allocation is what `status` shows.
  bool is_welcome(const SweepFacts& facts, const Demand& demand) {
    const auto why =
        site_limits_.refuses(facts, demand.nodes, needed_time_s(demand.longest_s, facts.policy));
    if (why && held_.empty()) held_ = *why;
    return !why;
  }

  /// Removes trials from the demand that are longer than their partition allows: they wait, and
  /// hold up no others.
  void leave_out_too_long(SweepId sweep, const TrialQueue& queue, Demand& demand) {
    const auto why = too_long(sweep, demand.nodes, demand.longest_s);
    if (!why) return;
    if (held_.empty())
      held_ = fmt::format("a trial waits, because it needs {}. {}", *why, beyond_advice);
    demand = {.nodes = demand.nodes};
    for (const auto& [position, id] : queue.order()) {
      const double predicted_s = world_.trial(id)->predicted_s;
      if (too_long(sweep, demand.nodes, predicted_s)) continue;
      ++demand.trials;
      demand.predicted_s += predicted_s;
      demand.longest_s = std::max(demand.longest_s, predicted_s);
    }
  }

  void give_back_nodes(SweepId sweep, const SweepFacts& facts) {
    for (const auto& [id, allocation] : world_.allocations()) {
      const bool leaves = allocation.sweep == sweep && takes_work(allocation) &&
          site_limits_.must_give_back(facts, allocation);
      if (leaves) drain(allocation);
    }
  }

  std::vector<Demand> demands(SweepId sweep) {
    std::vector<Demand> demands;
    for (const auto& [nodes, queue] : world_.index().waiting(sweep)) {
      Demand demand{.nodes = nodes,
          .predicted_s = queue.predicted().sum_s(),
          .longest_s = queue.predicted().longest_s(),
          .trials = queue.size()};
      leave_out_too_long(sweep, queue, demand);
      demand.waiting = demand.trials;
      if (const TrialRow* next = next_waiting(sweep, nodes);
          next != nullptr && next->final_set > 1) {
        demand.final_set = next->final_set;
        demand.avoid = next->final_avoid;
      }
      add_live(sweep, demand);
      demands.push_back(demand);
    }
    return demands;
  }

  void add_live(SweepId sweep, Demand& demand) const {
    for (const auto& [id, allocation] : world_.allocations()) {
      if (allocation.sweep != sweep || allocation.nodes != demand.nodes ||
          !takes_work(allocation) || allocation.final_set != demand.final_set) {
        continue;
      }
      ++demand.live;
      const AllocationAttempts& assigned = world_.index().assigned_to(id);
      demand.predicted_s += assigned.ahead.sum_s();
      demand.longest_s = std::max(demand.longest_s, assigned.ahead.longest_s());
      demand.trials += static_cast<std::int64_t>(assigned.open.size());
    }
  }

  AllocationRow new_allocation(
      const SweepRow& sweep, const SweepFacts& facts, std::int32_t nodes, std::string token) {
    INVARIANT(facts.backend == sweep.backend, "a sweep runs where its submission has said",
        sweep.id, facts.backend, sweep.backend);
    AllocationRow row;
    row.sweep = sweep.id;
    row.token = std::move(token);
    row.nodes = nodes;
    row.job_name = job_name_of(sweep.name, row.nodes, row.token);
    row.dir = input_.allocation_dir(row.token);
    row.backend = facts.backend;
    row.slots_per_node = facts.slots_per_node;
    row.created_at = input_.now;
    return row;
  }

  /// Token of the next allocation. Those of one make_lanes() ask Slurm for the same, so they can
  /// be an array.
  std::string next_token(const Policy& policy, std::int64_t made, std::string& array) {
    if (policy.lane_array <= 1) return input_.random_hex(token_digits);
    const std::int64_t index = made % policy.lane_array;
    if (index == 0) array = input_.random_hex(token_digits);
    return slurm::element_token(array, index);
  }

  void make_allocation(
      const SweepRow& sweep, const SweepFacts& facts, const Demand& demand, std::string token) {
    AllocationRow row = new_allocation(sweep, facts, demand.nodes, std::move(token));
    row.time_limit_s = wall_time_s(demand.predicted_s / static_cast<double>(demand.allocations),
        demand.longest_s, facts.policy);
    row.time_limit_s = site_limits_.time_within(
        facts, row.nodes, row.time_limit_s, needed_time_s(demand.longest_s, facts.policy));
    if (facts.backend != Backend::local) row.deadline = site_limits_.closes_at(facts);
    row.final_set = demand.final_set;
    row.avoid = demand.avoid;
    world_.add(std::move(row));
  }

  void assign_ahead(const AllocationRow& allocation, const Policy& policy, double share_s) {
    const AllocationAttempts& before = world_.index().assigned_to(allocation.id);
    double ahead = before.ahead.sum_s();
    auto assigned = static_cast<std::int64_t>(before.all.size());
    auto open = static_cast<std::int64_t>(before.open.size());
    const auto most =
        is_searched(allocation.sweep) ? std::min(most_open, input_.most_open_in_search) : most_open;
    std::int32_t round = 0;
    while (!has_more()) {
      const TrialRow* trial = next_waiting(allocation.sweep, allocation.nodes);
      if (trial == nullptr) return;
      const bool is_final = trial->final_of != 0;
      if (!is_for(allocation, *trial)) return;
      if (is_final && home_of_finals(world_, *trial) != allocation.id) return;
      // A round is not torn apart: runs in two allocations are no pair.
      const bool in_round = trial->final_round > 0 && trial->final_round == round;
      const bool room = ahead <= policy.lane_ahead_s && open < most && !is_full(assigned, policy) &&
          (ahead < share_s || open < least_open);
      if (!room && !in_round) return;
      round = is_final ? trial->final_round : 0;
      assign(*trial, allocation);
      ahead += trial->predicted_s;
      ++assigned;
      ++open;
      // Ask the search before the next start: each start counts against its limits.
      search(allocation.sweep);
    }
  }

  void assign(const TrialRow& row, const AllocationRow& allocation) {
    INVARIANT(row.state == State::planned && !row.hidden, "what is assigned was waiting", row.id,
        row.state, row.hidden);
    INVARIANT(row.sweep == allocation.sweep && node_count(row) == allocation.nodes &&
            takes_work(allocation),
        "a trial gets an allocation of its own sweep and size that takes work", row.id, row.sweep,
        allocation.id, allocation.sweep, allocation.nodes);
    ++assigned_;
    auto trial = world_.edit(row);
    trial->state = State::queued;
    trial->cause.clear();
    AttemptRow attempt;
    attempt.trial = row.id;
    attempt.number = ++trial->attempts;
    attempt.allocation = allocation.id;
    attempt.nonce = input_.random_hex(32);
    attempt.expandable = trial->expandable;
    attempt.dir = input_.attempt_dir(row, attempt);
    hold_against_best(attempt, trial->sweep);
    world_.add(std::move(attempt));
  }

  /// Stores the bound for an early end in the attempt's row, so that a later daemon uses the same.
  void hold_against_best(AttemptRow& attempt, SweepId sweep) const {
    const auto found = input_.searches.find(sweep);
    if (found == input_.searches.end()) return;
    const auto bound = found->second->bound_of(attempt.trial);
    if (!bound) return;
    attempt.leader = bound->leader;
    attempt.leader_step_ms = bound->leader_step_ms;
    attempt.give_up_above_ms = bound->give_up_above_ms;
  }

  /// An allocation without work is released at once.
  void drain_idle() {
    for (const auto& [id, allocation] : world_.allocations()) {
      if (!takes_work(allocation) || !open_attempts(world_, id).empty()) continue;
      const bool goes_on =
          is_active(world_, allocation.sweep) && has_work_for(allocation) && !is_full(allocation);
      if (!goes_on) drain(allocation);
    }
  }

  static bool is_full(std::int64_t assigned, const Policy& policy) {
    return policy.lane_length > 0 && assigned >= policy.lane_length;
  }
  bool is_full(const AllocationRow& allocation) const {
    const auto facts = input_.sweeps.find(allocation.sweep);
    const auto assigned = static_cast<std::int64_t>(world_.attempts_of(allocation.id).size());
    return facts != input_.sweeps.end() && is_full(assigned, facts->second.policy);
  }

  bool has_work_for(const AllocationRow& allocation) const {
    const TrialRow* next = next_waiting(allocation.sweep, allocation.nodes);
    return next != nullptr && is_for(allocation, *next);
  }

  World& world_;
  const DecideInput& input_;
  SiteLimits site_limits_;
  std::int64_t assigned_ = 0;
  std::map<std::int32_t, Share> shares_;  ///< shares by node count, of the sweep that is looked at
  std::string held_;                      ///< why the sweep that is looked at gets nothing more
  std::map<SweepId, std::vector<const TrialRow*>> ranked_;  ///< ranked trials of sweeps with a
                                                            ///< search
};

}  // namespace

bool decide(World& world, const DecideInput& input) {
  skip_after_oom(world, input);
  skip_refused(world, input);
  Decider decider(world, input);
  decider.run();
  return decider.has_more();
}

// What a job is called, and for how long it is asked for.

namespace {

/// Prolog, srun and node agents, before the lead can start anything.
constexpr double start_s = 120;

}  // namespace

std::string job_name_of(const std::string& sweep, std::int32_t nodes, const std::string& token) {
  return fmt::format("{}-n{}_{}", sweep.substr(0, 24), nodes, token);
}

double least_time_s(double work_s, const Policy& policy) {
  return work_s * policy.lane.time_margin + policy.attempt.grace_s + policy.lane.stop_before_end_s;
}
double needed_time_s(double work_s, const Policy& policy) {
  return least_time_s(work_s, policy) + start_s;
}

double wall_time_s(double predicted_s, double longest_s, const Policy& policy) {
  const double lane_s = std::clamp(needed_time_s(predicted_s, policy),
      std::min(policy.lane_min_time_s, policy.lane_max_time_s), policy.lane_max_time_s);
  // A job that can't hold one of its attempts would be submitted again and again. So the limit
  // gives way for that attempt, but not for a slow start-up.
  const double room_s = needed_time_s(longest_s, policy);
  return std::max(
      lane_s, room_s <= policy.lane_max_time_s ? room_s : least_time_s(longest_s, policy));
}

}  // namespace shardsweep
