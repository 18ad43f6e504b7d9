// SPDX-License-Identifier: Apache-2.0
// Decision: The trials of a round are stored before the end that has led to them is committed:
// no reader and no crash finds a sweep ended that goes on.
#include "daemon/final_rounds.hpp"

#include "fleet/finals.hpp"
#include "fleet/side_runs.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/log.hpp>

#include <iterator>
#include <utility>

namespace shardsweep {

void FinalRounds::plan() {
  due_.merge(just_ended(world_.changes()));
  if (std::exchange(all_, false)) see_all();
  for (auto one = due_.begin(); one != due_.end();) {
    const SweepRow* sweep = world_.sweep(one->first);
    const bool none = sweep == nullptr || sweeps_.is_apart(sweep->id);
    const auto done =
        none ? Result<void>() : in_work_of(sweep->id, [&] { return plan(*sweep, one->second); });
    if (!done) log_error(done.error().what);
    // Cells whose query failed stay due.
    const bool again = !done && worth_retrying(done.error().kind);
    one = again ? std::next(one) : due_.erase(one);
  }
}

void FinalRounds::see_all() {
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.state == SweepState::cancelled || sweeps_.is_apart(id)) continue;
    const auto context = sweeps_.context_of(sweep);
    if (!context || !runs_more((*context)->spec)) continue;
    const auto counts = parts_.store.node_counts(id);
    if (!counts) {
      all_ = true;
      continue;
    }
    for (const std::int32_t nodes : *counts)
      due_.emplace(id, nodes);
  }
}

/// True if the sweep gets more runs when its cells have ended, which nobody has submitted.
bool FinalRounds::runs_more(const SweepSpec& spec) {
  return spec.measure.finalists > 0 || spec.side_runs.any();
}

/// Keeps runs that confirm a result away from nodes that have measured it already.
Result<void> FinalRounds::keep_apart(
    const std::vector<FinalsRow>& rows, std::vector<NewFinal>& due) const {
  const std::int32_t set = due.front().set;
  if (set < 2) return {};
  SHARDSWEEP_ASSIGN(const auto nodes, parts_.store.nodes_of(allocations_before(rows, set)));
  std::string avoid;
  for (const std::string& node : nodes)
    avoid += (avoid.empty() ? "" : ",") + node;
  for (NewFinal& one : due)
    one.avoid = avoid;
  return {};
}

Result<void> FinalRounds::plan(const SweepRow& sweep, std::int32_t nodes) {
  // Trials measured outside share no allocation, so their runs are no pairs.
  if (sweep.state == SweepState::cancelled || sweep.backend == Backend::outside) return {};
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(sweep));
  const SweepSpec& spec = context->spec;
  if (!runs_more(spec) || is_searching(world_, sweep.id, nodes)) return {};
  if (spec.policy.max_gpu_hours > 0) {
    SHARDSWEEP_ASSIGN(const double used_s, parts_.store.gpu_seconds(sweep.id));
    if (used_s >= spec.policy.max_gpu_hours * hour_s) return {};
  }
  SHARDSWEEP_ASSIGN(auto rows, parts_.store.finals_rows(sweep.id, nodes));
  hear_changes(rows, world_.changes());
  Measure measure = spec.measure;
  if (sweep.backend == Backend::local) measure.node_sets = 1;  // this machine is the only one
  std::vector<NewFinal> due;
  if (measure.finalists > 0) due = due_finals(rows, measure);
  if (!due.empty()) SHARDSWEEP_TRY(keep_apart(rows, due));
  for (NewFinal& one : due)
    one.sets = spec.measure.node_sets;
  if (due.empty()) due = due_side_runs(rows, measure, spec.side_runs);
  if (due.empty()) return {};
  for (NewFinal& one : due)
    one.longer = spec.measure.finals_longer();
  SHARDSWEEP_ASSIGN(auto trials, parts_.store.add_finals(sweep.id, due));
  fail_point("daemon.final_round");
  for (TrialRow& trial : trials) {
    if (trial.state == State::ended || world_.trial(trial.id) != nullptr) continue;
    const TrialRow& adopted = world_.adopt(std::move(trial));
    if (adopted.final_set > 1 && adopted.final_avoid.empty())
      end_final(world_, adopted, parts_.clock.now(),
          "The nodes of these finals' earlier runs are unknown, so other nodes can't be chosen.");
  }
  return {};
}

}  // namespace shardsweep
