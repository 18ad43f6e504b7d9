// SPDX-License-Identifier: Apache-2.0
#include "plan/proof.hpp"

#include "sweep/launch.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace shardsweep {
namespace {

/// Model, sequence length, GPUs and variables.
using ProofCell = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::vector<std::int32_t>>;

/// The fastest by prediction, of each cell.
std::vector<const PlannedTrial*> finalists(const Plan& plan) {
  std::map<ProofCell, std::vector<const PlannedTrial*>> cells;
  for (const PlannedTrial& trial : plan.trials) {
    const Point& point = trial.point;
    if (point.repeat == 1)
      cells[{point.model, point.seq_len, point.gpus, point.vars}].push_back(&trial);
  }
  std::vector<const PlannedTrial*> all;
  for (auto& [cell, trials] : cells) {
    std::stable_sort(trials.begin(), trials.end(), [](const auto* a, const auto* b) {
      return a->prediction.tokens_per_s_per_gpu > b->prediction.tokens_per_s_per_gpu;
    });
    trials.resize(std::min(trials.size(), proved_layouts));
    all.insert(all.end(), trials.begin(), trials.end());
  }
  return all;
}

}  // namespace

std::string proof_name(const std::string& sweep) {
  return sweep + "-proof";
}

Proof make_proof(const SweepSpec& sweep, const Plan& plan) {
  Proof proof{sweep, {}};
  proof.sweep.name = proof_name(sweep.name);
  proof.sweep.prove = false;
  proof.sweep.proof_of = sweep.name;
  // Each rank runs once, and no runs are compared.
  proof.sweep.search = {};
  proof.sweep.search.policy = SearchPolicy::exhaustive;
  proof.sweep.control = {};
  proof.sweep.control.network_from = 0;
  proof.sweep.measure.repeats = 1;
  proof.sweep.measure = proof.sweep.measure.without_finals();
  proof.sweep.side_runs = {};
  VarValues& stages = proof.sweep.vars.emplace_back();
  stages.name = proof_stage_var;
  stages.values.assign(proof_stage_words().begin(), proof_stage_words().end());
  for (const PlannedTrial* one : finalists(plan)) {
    const std::int32_t pp = one->point.layout.pp;
    for (std::int32_t word = 0; word < 3; ++word) {
      // A pipeline of two stages has no middle one.
      if ((word == 1 && pp <= 2) || (word == 2 && pp == 1)) continue;
      PlannedTrial trial = *one;
      trial.point.nodes = 0;
      trial.point.gpus = 1;
      trial.point.vars.push_back(word);
      trial.prediction.tokens_per_s_per_gpu = 0;
      trial.lane = static_cast<std::int32_t>(proof.plan.trials.size());
      proof.plan.trials.push_back(std::move(trial));
    }
  }
  proof.plan.points = static_cast<std::int64_t>(proof.plan.trials.size());
  proof.plan.lanes = proof.plan.points;
  return proof;
}

std::vector<LayoutProof> proved(const SweepSpec& proof, const std::vector<ProvedRank>& ranks) {
  std::vector<LayoutProof> all;
  for (const ProvedRank& rank : ranks) {
    if (rank.point.vars.size() != proof.vars.size() || proof.vars.empty()) continue;
    Point point = rank.point;
    point.vars.pop_back();
    const auto world = static_cast<std::int32_t>(point.layout.world());
    const std::int32_t slots = std::max(1, proof.cluster.gpus_per_node);
    point.gpus = world;
    point.nodes = world % slots == 0 ? world / slots : 0;
    auto found = std::find_if(
        all.begin(), all.end(), [&](const LayoutProof& one) { return one.point == point; });
    if (found == all.end()) found = all.insert(all.end(), {.point = point});
    found->fits = found->fits && rank.fits;
    found->peak_bytes = std::max(found->peak_bytes, rank.peak_bytes);
    found->slowest_step_s = std::max(found->slowest_step_s, rank.step_s);
  }
  return all;
}

}  // namespace shardsweep
