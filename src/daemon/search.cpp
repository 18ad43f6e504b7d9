// SPDX-License-Identifier: Apache-2.0
// The searches of sweeps that have one. Each is made from the database, so that a daemon that
// comes after another one, or a request that has changed rows, finds the same belief; then it
// hears what is committed.
#include "daemon/sweeps.hpp"
#include "predict/family.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

SearchTrial trial_of(const SearchRow& row, const SweepSpec& spec) {
  const auto& model = spec.models.at(static_cast<std::size_t>(row.point.model));
  return {.id = row.id,
          .point = {.model = model, .point = row.point, .traits = {}},
          .started = row.attempted,
          .asked = row.rerun,
          .spared = row.spared,
          .gpu_hours = row.gpu_seconds / hour_s,
          .running = row.running,
          .running_since = row.running_since};
}

/// Until attempts of the sweep have shown what they take.
LaunchCost launch_cost(const SweepSpec& spec) {
  constexpr double process_s = 1;
  constexpr double gpu_job_s = 60;
  const double start_s = spec.cluster.gpu.empty() ? process_s : gpu_job_s;
  return {.start_s = start_s,
          .oom_s = start_s,
          .steps = spec.measure.warmup + spec.measure.steps,
          .warmup = spec.measure.warmup,
          .cut_short = spec.search.cuts_short() ? spec.search.cut_short : 0};
}

/// Of a trial with one attempt; 0: not known.
double seconds_of(const SearchRow& row) {
  return row.point.gpus > 0 ? row.gpu_seconds / row.point.gpus : 0;
}

}  // namespace

Result<SweepSearch*> Sweeps::search_of(SweepId sweep, SweepContext& context) {
  const auto& spec = context.spec;
  if (spec.search.is_plain()) return nullptr;
  if (!context.search) {
    SHARDSWEEP_ASSIGN(context.search, make_search(sweep, spec));
  }
  context.search->hear(world_.changes());
  SHARDSWEEP_TRY(read_reopened(sweep, *context.search));
  return context.search.get();
}

Result<std::unique_ptr<SweepSearch>> Sweeps::make_search(SweepId sweep, const SweepSpec& spec) {
  SHARDSWEEP_ASSIGN(auto rows, parts_.store.search_rows(sweep, spec));
  auto search = std::make_unique<SweepSearch>(
      spec.search, spec.cluster,
      Predictor(spec.cluster, family_of_runner(spec.runner.known_as())), launch_cost(spec));
  for (const auto& row : rows)
    search->add(trial_of(row, spec));
  // In the order in which the ends were heard: what is learnt depends on it a little.
  std::stable_sort(rows.begin(), rows.end(), [](const SearchRow& a, const SearchRow& b) {
    return a.ended_at < b.ended_at;
  });
  for (const auto& row : rows) {
    if (row.outcome)
      search->end(row.id, {*row.outcome, row.tokens_per_s_per_gpu, row.peak_memory_bytes,
                           seconds_of(row), row.cut_short});
  }
  return search;
}

/// Trials that have ended are forgotten; what a search wants back is read again.
Result<void> Sweeps::read_reopened(SweepId id, SweepSearch& search) {
  const auto wanted = search.to_reopen();
  const auto is_known = [&](TrialId trial) { return world_.trial(trial) != nullptr; };
  if (std::all_of(wanted.begin(), wanted.end(), is_known)) return {};
  const SweepRow* sweep = world_.sweep(id);
  if (sweep == nullptr) return {};
  SHARDSWEEP_ASSIGN(auto chosen,
                    parts_.store.select_trials({sweep->name}, "outcome = 'skipped'"));
  const std::set<TrialId> ids(wanted.begin(), wanted.end());
  for (auto& row : chosen.trials) {
    if (ids.contains(row.id)) world_.adopt(std::move(row));
  }
  return {};
}

void Sweeps::forget_searches() {
  for (auto& [id, context] : contexts_)
    context.search.reset();
}

void Sweeps::tell_searches() {
  for (auto& [id, context] : contexts_) {
    if (context.search) context.search->hear(world_.changes());
  }
}

}  // namespace shardsweep
