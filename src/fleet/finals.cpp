// SPDX-License-Identifier: Apache-2.0
#include "fleet/finals.hpp"

#include "fleet/allocation.hpp"
#include "search/final_cells.hpp"

#include <algorithm>
#include <map>

namespace shardsweep {
namespace {

double metric_of(const AddMeasurement& measured, std::string_view name) {
  const auto found = measured.metrics.find(name);
  return found == measured.metrics.end() ? 0 : found->second;
}

/// Of attempts in changes.
struct Heard {
  std::map<AttemptId, const AddMeasurement*> measured;
  std::map<TrialId, const AttemptRow*> counted;
  std::map<TrialId, const TrialRow*> trials;
  std::set<AttemptId> marked;
};

Heard heard_of(std::span<const Change> changes) {
  Heard heard;
  for (const Change& change : changes) {
    if (const auto* one = std::get_if<AddMeasurement>(&change)) {
      heard.measured[one->attempt] = one;
    } else if (const auto* attempt = std::get_if<PutAttempt>(&change)) {
      if (attempt->row.counted) heard.counted[attempt->row.trial] = &attempt->row;
    } else if (const auto* trial = std::get_if<SetTrial>(&change)) {
      heard.trials[trial->row.id] = &trial->row;
    } else if (const auto* mark = std::get_if<MarkMeasurement>(&change)) {
      heard.marked.insert(mark->attempt);
    }
  }
  return heard;
}

void take_counted(FinalsRow& row, const AttemptRow& attempt, const Heard& heard) {
  const auto found = heard.measured.find(attempt.id);
  if (found == heard.measured.end()) return;
  const AddMeasurement& measured = *found->second;
  row.attempt = attempt.id;
  row.allocation = attempt.allocation;
  const bool ranked = measured.mark == Mark::none && !measured.cut_short;
  row.tokens_per_s_per_gpu = ranked ? metric_of(measured, "tokens_per_s_per_gpu") : 0;
  row.sm_clock_mhz = ranked ? metric_of(measured, "sm_clock_mhz") : 0;
  row.throttled = ranked ? measured.throttled : "";
}

bool runs_finals(const World& world, AllocationId id) {
  const auto& attempts = world.attempts_of(id);
  return std::any_of(attempts.begin(), attempts.end(), [&](AttemptId attempt) {
    const AttemptRow* row = world.attempt(attempt);
    const TrialRow* trial = row == nullptr ? nullptr : world.trial(row->trial);
    return trial != nullptr && trial->final_of != 0;
  });
}

}  // namespace

void hear_changes(std::vector<FinalsRow>& rows, std::span<const Change> changes) {
  const Heard heard = heard_of(changes);
  for (FinalsRow& row : rows) {
    if (const auto found = heard.trials.find(row.id); found != heard.trials.end()) {
      row.open = found->second->state != State::ended;
      row.cancelled = found->second->outcome == Outcome::cancelled;
    }
    if (const auto found = heard.counted.find(row.id); found != heard.counted.end())
      take_counted(row, *found->second, heard);
    if (heard.marked.contains(row.attempt)) row.tokens_per_s_per_gpu = 0;
  }
}

bool is_searching(const World& world, SweepId sweep, std::int32_t nodes) {
  const TrialQueues& queues = world.index().waiting(sweep);
  if (const auto queue = queues.find(nodes); queue != queues.end() && !queue->second.empty()) {
    // Finals stand behind all others.
    if (world.trial(queue->second.first())->final_of == 0) return true;
  }
  return std::any_of(world.attempts().begin(), world.attempts().end(), [&](const auto& entry) {
    const TrialRow* trial = world.trial(entry.second.trial);
    return trial != nullptr && trial->sweep == sweep && trial->final_of == 0 &&
           trial->state != State::ended && node_count(*trial) == nodes;
  });
}

std::vector<NewFinal> due_finals(const std::vector<FinalsRow>& rows, const Measure& measure) {
  const FinalsSettings settings{measure.final_rounds, measure.resolve};
  std::vector<NewFinal> due;
  for (const FinalCell& cell : final_cells(rows, static_cast<std::size_t>(measure.finalists))) {
    const Finals finals = finals_of(cell.finalists, cell.runs, settings);
    for (const TrialId layout : finals.next)
      due.push_back({layout, finals.next_round, measure.resolve});
  }
  return due;
}

std::set<std::pair<SweepId, std::int32_t>> just_ended(std::span<const Change> changes) {
  std::set<std::pair<SweepId, std::int32_t>> ended;
  for (const Change& change : changes) {
    const auto* trial = std::get_if<SetTrial>(&change);
    if (trial != nullptr && trial->row.state == State::ended)
      ended.emplace(trial->row.sweep, node_count(trial->row));
  }
  return ended;
}

std::vector<const TrialRow*> taken_finals(std::vector<const TrialRow*>& trials) {
  const auto first = std::stable_partition(
      trials.begin(), trials.end(), [](const TrialRow* trial) { return trial->final_of == 0; });
  std::vector<const TrialRow*> finals(first, trials.end());
  trials.erase(first, trials.end());
  return finals;
}

AllocationId home_of_finals(const World& world, const TrialRow& trial) {
  AllocationId home = 0;
  bool known = false;
  for (const auto& [id, allocation] : world.allocations()) {
    const bool fits = allocation.sweep == trial.sweep && takes_work(allocation) &&
                      allocation.nodes == node_count(trial);
    if (!fits) continue;
    const bool has_finals = runs_finals(world, id);
    if (home == 0 || (has_finals && !known)) home = id;
    known = known || has_finals;
  }
  return home;
}

}  // namespace shardsweep
