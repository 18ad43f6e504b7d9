// SPDX-License-Identifier: Apache-2.0
// Decision: Confirmations on other nodes have allocations of their own, which exclude the nodes
// of earlier sets. One set runs after the other, for all cells, so that nobody holds nodes while
// waiting for more. Slurm's refusal alone says that there are no other nodes.
#include "fleet/finals.hpp"

#include "answer/answer.hpp"
#include "fleet/allocation.hpp"
#include "fleet/trial_change.hpp"
#include "search/finals.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace shardsweep {

namespace {

/// Attempts and trials in uncommitted changes.
struct ChangeIndex {
  std::map<AttemptId, const AddMeasurement*> measured;
  std::map<TrialId, const AttemptRow*> counted;
  std::map<TrialId, const TrialRow*> trials;
  std::set<AttemptId> marked;
};

ChangeIndex heard_of(std::span<const Change> changes) {
  ChangeIndex heard;
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

void take_counted(FinalsRow& row, const AttemptRow& attempt, const ChangeIndex& heard) {
  const auto found = heard.measured.find(attempt.id);
  if (found == heard.measured.end()) return;
  const AddMeasurement& measured = *found->second;
  row.attempt = attempt.id;
  row.allocation = attempt.allocation;
  const bool ranked = measured.mark == Mark::none && !measured.cut_short;
  row.tokens_per_s_per_gpu = ranked ? measured.metric("tokens_per_s_per_gpu") : 0;
  row.sm_clock_mhz = ranked ? measured.metric("sm_clock_mhz") : 0;
  row.throttled = ranked ? measured.throttled : "";
  row.resolution = measured.metric("resolution");
  row.step_spread = measured.metric("train_step_ms_spread");
  row.steps = static_cast<std::int64_t>(measured.metric("steps"));
  row.others_cpu = attempt.ending ? attempt.ending->others_cpu : 0;
  row.hosts = measured.hosts;
  row.ended_at = attempt.ended_at;
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
  const ChangeIndex heard = heard_of(changes);
  for (FinalsRow& row : rows) {
    if (const auto found = heard.trials.find(row.id); found != heard.trials.end()) {
      row.open = found->second->state != State::ended;
      row.cancelled = found->second->outcome == Outcome::cancelled;
      row.out_of_memory = found->second->outcome == Outcome::oom;
      row.skipped = found->second->outcome == Outcome::skipped ? found->second->cause : "";
    }
    if (const auto found = heard.counted.find(row.id); found != heard.counted.end())
      take_counted(row, *found->second, heard);
    if (heard.marked.contains(row.attempt)) row.tokens_per_s_per_gpu = 0;
  }
}

bool is_searching(const World& world, SweepId sweep, std::int32_t nodes) {
  const TrialQueues& queues = world.index().waiting(sweep);
  if (const auto queue = queues.find(nodes); queue != queues.end() && !queue->second.empty()) {
    // Finals come last in the queue: if the first trial is no final, other trials wait.
    if (world.trial(queue->second.first())->final_of == 0) return true;
  }
  return std::any_of(world.attempts().begin(), world.attempts().end(), [&](const auto& entry) {
    const TrialRow* trial = world.trial(entry.second.trial);
    return trial != nullptr && trial->sweep == sweep && trial->final_of == 0 &&
        trial->state != State::ended && node_count(*trial) == nodes;
  });
}

std::vector<NewFinal> due_finals(const std::vector<FinalsRow>& rows, const Measure& measure) {
  const FinalsSettings settings{measure.final_rounds, measure.resolve, measure.node_sets};
  std::vector<NewFinal> due;
  std::int32_t earliest = measure.node_sets;
  for (const FinalCell& cell : final_cells(rows, static_cast<std::size_t>(measure.finalists))) {
    const Finals finals = finals_of(cell.finalists, cell.runs, settings);
    for (const FinalRun& run : cell.runs)
      if (run.open) earliest = std::min(earliest, run.set);
    for (const TrialId layout : finals.next) {
      earliest = std::min(earliest, finals.next_set);
      due.push_back({.of = layout,
          .round = finals.next_round,
          .resolve = measure.resolve,
          .set = finals.next_set,
          .sets = measure.node_sets});
    }
  }
  // One set of nodes after the other, for all cells: nobody holds nodes and waits for others.
  std::erase_if(due, [&](const NewFinal& one) { return one.set > earliest; });
  return due;
}

std::vector<AllocationId> allocations_before(const std::vector<FinalsRow>& rows, std::int32_t set) {
  std::set<AllocationId> before;
  for (const FinalsRow& row : rows)
    if (row.final_of != 0 && row.again == 0 && row.final_set < set && row.tokens_per_s_per_gpu > 0)
      before.insert(row.allocation);
  return {before.begin(), before.end()};
}

bool is_for(const AllocationRow& allocation, const TrialRow& trial) {
  return allocation.final_set == (trial.final_set > 1 ? trial.final_set : 0);
}

void end_finals_without_nodes(World& world, const AllocationRow& allocation, Timestamp now) {
  const std::string cause =
      fmt::format("The cluster does not have {} besides {}, on which these finals ran before.",
          counted(allocation.nodes, "node"), allocation.avoid);
  std::vector<TrialId> waiting;
  for (const AttemptId id : world.attempts_of(allocation.id)) {
    const AttemptRow& attempt = *world.attempt(id);  // assigned ahead
    const TrialRow* trial = world.trial(attempt.trial);
    if (attempt.state != State::ended && trial != nullptr && trial->state != State::ended)
      waiting.push_back(attempt.trial);
  }
  const TrialQueues& queues = world.index().waiting(allocation.sweep);
  if (const auto queue = queues.find(allocation.nodes); queue != queues.end()) {
    for (const auto& [position, id] : queue->second.order())
      if (is_for(allocation, *world.trial(id))) waiting.push_back(id);
  }
  for (const TrialId id : waiting)
    end_final(world, *world.trial(id), now, cause);
}

void end_final(World& world, const TrialRow& trial, Timestamp now, const std::string& cause) {
  end_trial(*world.edit(trial), {.outcome = Outcome::skipped, .cause = cause});
  world.record(AddEvent{.at = now,
      .sweep = trial.sweep,
      .trial = trial.id,
      .kind = EventKind::spared,
      .detail = cause});
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
        allocation.nodes == node_count(trial) && is_for(allocation, trial);
    if (!fits) continue;
    const bool has_finals = runs_finals(world, id);
    if (home == 0 || (has_finals && !known)) home = id;
    known = known || has_finals;
  }
  return home;
}

namespace {

using CellRows = std::vector<const FinalsRow*>;

/// The trial that stands for the layout that leads its cell: the finalist, else the first of its
/// repeats. 0: nothing was measured.
TrialId winner_of(const CellRows& cell, const CellAnswer& answer) {
  const auto* winner = answer.winner();
  if (winner == nullptr) return 0;
  for (const FinalsRow* row : cell) {
    const bool is_its = row->layout == winner->name && row->tokens_per_s_per_gpu > 0 &&
        row->side == SideRun::none && row->again == 0;
    if (is_its && answer.by_finals == (row->final_of != 0))
      return answer.by_finals ? row->final_of : row->id;
  }
  return 0;
}

bool is_made(const CellRows& cell, SideRun side, TrialId of) {
  return std::any_of(cell.begin(), cell.end(),
      [&](const FinalsRow* row) { return row->side == side && row->final_of == of; });
}

void add_snapshots(const CellRows& cell, std::vector<NewFinal>& due) {
  int made = static_cast<int>(std::count_if(
      cell.begin(), cell.end(), [](const FinalsRow* row) { return row->side == SideRun::memory; }));
  for (const FinalsRow* row : cell) {
    const bool own = row->final_of == 0 && row->out_of_memory;
    if (!own || made >= most_snapshots || is_made(cell, SideRun::memory, row->id)) continue;
    due.push_back({.of = row->id, .round = 0, .set = 0, .side = SideRun::memory});
    ++made;
  }
}

}  // namespace

std::vector<NewFinal> due_side_runs(
    const std::vector<FinalsRow>& rows, const Measure& measure, const SideRuns& wanted) {
  std::map<CellKey, CellRows> cells;
  for (const FinalsRow& row : rows)
    cells[row.cell].push_back(&row);
  const auto answers = answers_of(rows, {measure.final_rounds, measure.resolve, measure.node_sets});
  std::vector<NewFinal> due;
  for (const auto& [name, cell] : cells) {
    const bool goes_on = std::any_of(cell.begin(), cell.end(),
        [](const FinalsRow* row) { return row->open && row->side == SideRun::none; });
    if (goes_on) continue;
    const auto answer = answers.find(name);
    const TrialId winner = answer == answers.end() ? 0 : winner_of(cell, answer->second);
    if (wanted.profile && winner != 0 && !is_made(cell, SideRun::profile, winner))
      due.push_back({.of = winner, .round = 0, .set = 0, .side = SideRun::profile});
    if (wanted.memory) add_snapshots(cell, due);
  }
  return due;
}

}  // namespace shardsweep
