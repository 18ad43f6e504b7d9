// SPDX-License-Identifier: Apache-2.0
#include "fleet/world_index.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace shardsweep {
namespace {

std::int64_t predicted_us(const TrialRow& trial) {
  constexpr double most_s = 1e9;
  const double seconds = std::isfinite(trial.predicted_s) ? trial.predicted_s : most_s;
  return std::llround(std::clamp(seconds, 0.0, most_s) * 1e6);
}

template <class Map, class Key>
const typename Map::mapped_type& found_or_none(const Map& map, const Key& key) {
  static const typename Map::mapped_type none{};
  const auto found = map.find(key);
  return found == map.end() ? none : found->second;
}

void insert_sorted(std::vector<AttemptId>& ids, AttemptId id) {
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  if (at == ids.end() || *at != id) ids.insert(at, id);
}

}  // namespace

std::int32_t node_count(const TrialRow& trial) {
  return std::max(1, trial.nodes);
}

void PredictedTimes::add(const TrialRow& trial) {
  const std::int64_t us = predicted_us(trial);
  each_us_.insert(us);
  sum_us_ += us;
}

void PredictedTimes::remove(const TrialRow& trial) {
  const std::int64_t us = predicted_us(trial);
  each_us_.erase(each_us_.find(us));
  sum_us_ -= us;
}

double PredictedTimes::longest_s() const {
  return each_us_.empty() ? 0 : static_cast<double>(*each_us_.rbegin()) * 1e-6;
}

void TrialQueue::add(const TrialRow& trial) {
  order_.emplace_hint(order_.end(), trial.position, trial.id);
  predicted_.add(trial);
}

void TrialQueue::remove(const TrialRow& trial) {
  order_.erase({trial.position, trial.id});
  predicted_.remove(trial);
}

std::size_t WorldIndex::LaneHash::operator()(const LaneKey& key) const {
  return std::hash<std::string>()(key.second) ^
      (std::hash<SweepId>()(key.first) * 0x9e3779b97f4a7c15U);
}

WorldIndex::WorldIndex(const WorldRows& rows) {
  known_.reserve(rows.trials.size());
  for (const auto& [id, trial] : rows.trials)
    put(trial);
  for (const auto& [id, attempt] : rows.attempts) {
    const auto trial = rows.trials.find(attempt.trial);
    put(attempt, trial == rows.trials.end() ? nullptr : &trial->second);
  }
  for (const auto& [id, allocation] : rows.allocations)
    put(allocation);
}

WorldIndex::Facts WorldIndex::facts_of(const TrialRow& trial) {
  Facts facts;
  facts.in_file = !trial.hidden;
  facts.planned = trial.state == State::planned;
  facts.waits = facts.planned && facts.in_file;
  facts.begun = trial.state == State::queued || trial.state == State::running;
  facts.out_of_memory = trial.outcome == Outcome::oom && !trial.fragmented;
  facts.refused = trial.outcome == Outcome::rejected && trial.final_of == 0;
  return facts;
}

void WorldIndex::put(const TrialRow& trial) {
  Facts& known = known_[trial.id];
  const Facts now = facts_of(trial);
  if (known == now) return;
  put_in_queue(trial, known, now);
  put_in_lane(trial, known, now);
  if (now.refused) {
    refused_[trial.sweep].insert(trial.id);
  } else if (known.refused && refused_[trial.sweep].erase(trial.id) == 1) {
    if (refused_[trial.sweep].empty()) refused_.erase(trial.sweep);
  }
  known = now;
}

void WorldIndex::put_in_queue(const TrialRow& trial, const Facts& before, const Facts& after) {
  OfSweep& sweep = sweeps_[trial.sweep];
  if (before.waits != after.waits) {
    const std::int32_t nodes = node_count(trial);
    TrialQueue& queue = sweep.waiting[nodes];
    if (after.waits) {
      queue.add(trial);
    } else {
      queue.remove(trial);
    }
    if (queue.empty()) sweep.waiting.erase(nodes);
  }
  const auto count = [](bool was, bool is) { return std::int64_t{is} - std::int64_t{was}; };
  begun_ += count(before.begun, after.begun);
  sweep.begun += count(before.begun, after.begun);
  sweep.begun_in_file += count(before.begun && before.in_file, after.begun && after.in_file);
}

void WorldIndex::put_in_lane(const TrialRow& trial, const Facts& before, const Facts& after) {
  // A final's layout has fitted once: out-of-memory in its lane does not concern it.
  if (trial.final_of != 0) return;
  if (before.planned == after.planned && before.out_of_memory == after.out_of_memory) return;
  const LaneKey key{trial.sweep, trial.lane};
  Lane& lane = lanes_[key];
  const std::pair place{trial.micro_batch, trial.id};
  if (after.planned) {
    lane.planned.insert(place);
  } else {
    lane.planned.erase(place);
  }
  if (after.out_of_memory) {
    lane.out_of_memory.insert(place);
  } else {
    lane.out_of_memory.erase(place);
  }
  const bool beyond = !lane.planned.empty() && !lane.out_of_memory.empty() &&
      lane.planned.rbegin()->first > lane.out_of_memory.begin()->first;
  if (beyond) {
    beyond_memory_.insert(key);
  } else {
    beyond_memory_.erase(key);
  }
  if (lane.planned.empty() && lane.out_of_memory.empty()) lanes_.erase(key);
}

void WorldIndex::put(const AttemptRow& attempt, const TrialRow* trial) {
  insert_sorted(attempts_at_[attempt.trial], attempt.id);
  AllocationAttempts& assigned = assigned_[attempt.allocation];
  insert_sorted(assigned.all, attempt.id);
  const bool is_open = attempt.state != State::ended;
  const bool was_open = assigned.open.contains(attempt.id);
  if (is_open && !was_open) {
    assigned.open.insert(attempt.id);
    if (trial != nullptr) assigned.ahead.add(*trial);
  } else if (!is_open && was_open) {
    assigned.open.erase(attempt.id);
    if (trial != nullptr) assigned.ahead.remove(*trial);
  }
}

void WorldIndex::put(const AllocationRow& allocation) {
  tokens_.emplace(allocation.token, allocation.id);
}

void WorldIndex::forget(const AttemptRow& attempt) {
  const auto assigned = assigned_.find(attempt.allocation);
  if (assigned != assigned_.end()) {
    std::erase(assigned->second.all, attempt.id);
    if (assigned->second.all.empty()) assigned_.erase(assigned);
  }
  const auto tried = attempts_at_.find(attempt.trial);
  if (tried == attempts_at_.end()) return;
  std::erase(tried->second, attempt.id);
  if (tried->second.empty()) attempts_at_.erase(tried);
}

void WorldIndex::forget(const AllocationRow& allocation) {
  tokens_.erase(allocation.token);
}

const TrialQueues& WorldIndex::waiting(SweepId sweep) const {
  return found_or_none(sweeps_, sweep).waiting;
}

std::int64_t WorldIndex::begun(SweepId sweep) const {
  return found_or_none(sweeps_, sweep).begun;
}

bool WorldIndex::is_open(SweepId sweep) const {
  const OfSweep& known = found_or_none(sweeps_, sweep);
  return known.begun_in_file > 0 || !known.waiting.empty();
}

const AllocationAttempts& WorldIndex::assigned_to(AllocationId id) const {
  return found_or_none(assigned_, id);
}

const std::vector<AttemptId>& WorldIndex::attempts_at(TrialId id) const {
  return found_or_none(attempts_at_, id);
}

AllocationId WorldIndex::allocation_of(const std::string& token) const {
  return found_or_none(tokens_, token);
}

bool WorldIndex::agrees(const TrialRow& trial) const {
  const Facts now = facts_of(trial);
  const auto known = known_.find(trial.id);
  if (known == known_.end() || !(known->second == now)) return false;
  const TrialQueues& queues = waiting(trial.sweep);
  const auto queue = queues.find(node_count(trial));
  const bool queued =
      queue != queues.end() && queue->second.order().contains({trial.position, trial.id});
  if (queued != now.waits) return false;
  if (trial.final_of != 0) return true;
  const Lane& lane = found_or_none(lanes_, LaneKey{trial.sweep, trial.lane});
  const std::pair place{trial.micro_batch, trial.id};
  return lane.planned.contains(place) == now.planned &&
      lane.out_of_memory.contains(place) == now.out_of_memory;
}

bool WorldIndex::agrees(const AttemptRow& attempt) const {
  const AllocationAttempts& assigned = assigned_to(attempt.allocation);
  const auto& tried = attempts_at(attempt.trial);
  return assigned.open.contains(attempt.id) == (attempt.state != State::ended) &&
      std::binary_search(assigned.all.begin(), assigned.all.end(), attempt.id) &&
      std::binary_search(tried.begin(), tried.end(), attempt.id);
}

bool WorldIndex::agrees(const AllocationRow& allocation) const {
  return allocation_of(allocation.token) == allocation.id;
}

std::vector<std::pair<TrialId, TrialId>> WorldIndex::beyond_memory() const {
  std::vector<std::pair<TrialId, TrialId>> all;
  for (const LaneKey& key : beyond_memory_) {
    const Lane& lane = lanes_.at(key);
    const auto& [micro_batch, smallest] = *lane.out_of_memory.begin();
    for (auto one = lane.planned.rbegin(); one != lane.planned.rend(); ++one) {
      if (one->first <= micro_batch) break;
      all.emplace_back(one->second, smallest);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace shardsweep
