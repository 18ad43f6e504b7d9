// SPDX-License-Identifier: Apache-2.0
// The searches of sweeps that have one. Each is made from the database, so that a daemon that
// comes after another one, or a request that has changed rows, finds the same belief; then it
// observes what is committed.
#include "daemon/sweeps.hpp"
#include "plan/knowledge_file.hpp"
#include "plan/plan_cost.hpp"
#include "predict/family.hpp"
#include "text/median.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/log.hpp>

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

}  // namespace

Result<SweepSearch*> Sweeps::search_of(SweepId sweep, SweepContext& context) {
  const auto& spec = context.spec;
  if (spec.search.is_plain()) return nullptr;
  // Make the search only when everything that it begins with is known.
  if (const auto* proof = proof_row(spec); proof != nullptr && world_.index().is_open(proof->id))
    return nullptr;
  if (!context.search) {
    SHARDSWEEP_ASSIGN(context.search, make_search(sweep, spec));
  }
  context.search->observe(world_.changes());
  SHARDSWEEP_TRY(read_reopened(sweep, *context.search));
  return context.search.get();
}

namespace {

/// A rank alone waits for nobody: its train steps tell how fast the device itself is. The
/// median over the layouts that were proved scales what the device does.
ClusterSpec as_fast_as(
    const std::vector<LayoutProof>& proofs, const SweepSpec& spec, const Family& family) {
  constexpr double most = 4;
  std::vector<double> slower;
  const Predictor predictor(spec.cluster, family);
  for (const LayoutProof& one : proofs) {
    const auto& model = spec.models.at(static_cast<std::size_t>(one.point.model));
    const TimeEstimate time = predictor.guess(model, one.point).time;
    const double alone_s = time.compute_s + time.memory_s + time.launch_s + time.update_s;
    if (one.slowest_step_s > 0 && alone_s > 0 && !time.nominal)
      slower.push_back(one.slowest_step_s / alone_s);
  }
  ClusterSpec cluster = spec.cluster;
  if (slower.empty()) return cluster;
  const double factor = std::clamp(median_of(std::move(slower), Even::upper), 1 / most, most);
  cluster.gemm_efficiency = std::min(1.0, cluster.gemm_efficiency / factor);
  cluster.attention_efficiency = std::min(1.0, cluster.attention_efficiency / factor);
  cluster.memory_bandwidth /= factor;
  return cluster;
}

}  // namespace

const SweepRow* Sweeps::proof_row(const SweepSpec& spec) const {
  if (!spec.prove) return nullptr;
  const auto found = std::find_if(world_.sweeps().begin(), world_.sweeps().end(),
      [&](const auto& entry) { return entry.second.name == proof_name(spec.name); });
  return found == world_.sweeps().end() ? nullptr : &found->second;
}

Result<std::vector<LayoutProof>> Sweeps::proofs_of(const SweepSpec& spec) {
  const SweepRow* row = proof_row(spec);
  if (row == nullptr) return std::vector<LayoutProof>();
  SHARDSWEEP_ASSIGN(const SweepContext* context, context_of(*row));
  SHARDSWEEP_ASSIGN(const auto rows, parts_.store.search_rows(row->id, context->spec));
  std::vector<ProvedRank> ranks;
  for (const SearchRow& one : rows) {
    const bool fits = one.outcome == Outcome::completed && one.peak_memory_bytes > 0;
    if (fits || one.outcome == Outcome::oom)
      ranks.push_back({one.point, fits, one.peak_memory_bytes, one.train_step_ms * 1e-3});
  }
  return proved(context->spec, ranks);
}

/// The latest runs of other sweeps that had ended when this one was submitted, and of the files
/// of knowledge that were there: a daemon that comes later finds the same ones, whatever was
/// measured or imported since.
Result<std::vector<EarlierRun>> Sweeps::memories_of(
    SweepId id, const SweepSpec& spec, const std::vector<SearchRow>& own) {
  const LearnFrom& from = spec.search.learn_from;
  const Timestamp until = world_.sweep(id)->submitted_at;
  std::set<Dtype> dtypes;
  for (const SearchRow& row : own)
    dtypes.insert(row.point.dtype);
  EarlierRuns runs(std::move(dtypes));
  for (const auto& [other, row] : world_.sweeps()) {
    if (other == id || row.backend == Backend::imported || !from.includes(row.name)) continue;
    const auto theirs = load_sweep_text(row.resolved, row.name, {parts_.installation.presets, {}});
    // A file of another version may not load any more: that is its own sweep's trouble.
    if (!theirs || !is_kin(spec, *theirs)) continue;
    SHARDSWEEP_ASSIGN(const auto rows, parts_.store.search_rows(other, *theirs));
    runs.add(earlier_runs(*theirs, rows, until));
  }
  SHARDSWEEP_ASSIGN(const auto files, parts_.store.knowledge(until));
  for (const KnowledgeText& one : files) {
    if (!from.includes(one.name)) continue;
    const auto file = read_knowledge(one.text, one.name);
    if (file) {
      runs.add_file(earlier_runs(spec, *file));
    } else {
      log_warning(file.error().what);
    }
  }
  return runs.latest();
}

Result<std::unique_ptr<SweepSearch>> Sweeps::make_search(SweepId sweep, const SweepSpec& spec) {
  SHARDSWEEP_ASSIGN(auto rows, parts_.store.search_rows(sweep, spec));
  SHARDSWEEP_ASSIGN(const auto proofs, proofs_of(spec));
  const auto& family = family_of(spec.runner);
  const ClusterSpec cluster = as_fast_as(proofs, spec, family);
  auto search = std::make_unique<SweepSearch>(
      spec.search, cluster, Predictor(cluster, family), launch_cost(spec));
  if (spec.search.remembers()) {
    SHARDSWEEP_ASSIGN(auto memories, memories_of(sweep, spec, rows));
    for (EarlierRun& one : memories)
      search->remember(std::move(one.is.point), one.is.news);
  }
  for (const LayoutProof& one : proofs) {
    const auto& model = spec.models.at(static_cast<std::size_t>(one.point.model));
    search->learn({.model = model, .point = one.point, .traits = {}},
        {one.fits ? Outcome::completed : Outcome::oom, 0, one.peak_bytes});
  }
  for (const auto& row : rows)
    search->add(trial_of(row, spec));
  // Ends in the order in which they were observed, on which it depends what is learnt. An attempt
  // that ended earlier than another one may have been observed later.
  std::stable_sort(rows.begin(), rows.end(), [](const SearchRow& a, const SearchRow& b) {
    return std::pair(a.end_event, a.ended_at) < std::pair(b.end_event, b.ended_at);
  });
  for (const auto& row : rows) {
    if (row.outcome)
      search->end(row.id,
          {*row.outcome, row.tokens_per_s_per_gpu, row.peak_memory_bytes, row.seconds,
              row.cut_short, row.resolution});
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
  SHARDSWEEP_ASSIGN(auto chosen, parts_.store.select_trials({sweep->name}, "outcome = 'skipped'"));
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
    if (!context.search) continue;
    context.search->observe(world_.changes());
    if (context.search->is_outdated()) context.search.reset();
  }
}

}  // namespace shardsweep
