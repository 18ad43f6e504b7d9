// SPDX-License-Identifier: Apache-2.0
// How true an extrapolation is: a published table, of which all cells on fewer nodes are known,
// says what the cells on the next numbers of nodes will measure. A line for each step outward:
// how far the guesses are off, how often the 95 % interval holds what was measured, and how
// good the layout would have been that was proposed. `tests/tools/bench/extrapolate` calls it.
#include "predict/family.hpp"
#include "search/extrapolation.hpp"
#include "tools/lab/memory_score.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/recorded.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace shardsweep;

struct Table {
  RecordedSweep sweep;
  ClusterSpec cluster;
  const Family* family = nullptr;
};

/// Of all cells that lie so many doublings beyond the largest known number of nodes.
struct Score {
  std::vector<double> off;  ///< |ln(measured / expected)|
  std::int64_t held = 0;    ///< of them within their interval
  std::vector<double> regret;
  std::int64_t proposals_held = 0;
};

Result<Table> published(const std::string& folder, const std::string& presets) {
  Table table;
  SHARDSWEEP_ASSIGN(table.sweep,
      read_recorded(folder + "/playbook_sweep_1b_9b_469b.csv",
          {.format = RecordedFormat::nanotron, .gpus_per_node = 8}));
  // One software state: rows before and after a fix of the pipeline can't be compared.
  SHARDSWEEP_TRY(keep_where(table.sweep,
      "(pp = 1 OR software_version = 'after_pp_fix' OR outcome <> 'completed') "
      "AND dp*micro_batch*grad_accum = 256"));
  SHARDSWEEP_ASSIGN(table.cluster, load_cluster("h100-8x", presets));
  SHARDSWEEP_ASSIGN(table.family, find_family("nanotron"));
  return table;
}

SearchPoint point_of(const RecordedSweep& sweep, const RecordedRun& run) {
  return {sweep.model_of(run), run.point, traits_of(run), run.unknown, run.kernel};
}

SearchNews news_of(const RecordedRun& run) {
  return {.outcome = run.outcome,
      .tokens_per_s_per_gpu = run.tokens_per_s_per_gpu.value_or(0),
      .peak_bytes = run.peak_memory_bytes.value_or(0)};
}

bool is_held(const ExtrapolatedCell& cell, const Extrapolation& one, double measured) {
  const double factor = cell.factor_of(one);
  return measured >= one.tokens_per_s_per_gpu / factor &&
      measured <= one.tokens_per_s_per_gpu * factor;
}

/// One model, known up to `largest` nodes.
void score(const Table& table, const std::string& model, std::int32_t largest,
    std::map<int, Score>& scores) {
  std::vector<Experience> known;
  std::vector<SearchPoint> targets;
  std::vector<double> measured;
  for (const auto& run : table.sweep.runs) {
    if (table.sweep.model_of(run).name != model) continue;
    if (run.nodes <= largest) {
      if (run.oom_error) continue;
      known.push_back({point_of(table.sweep, run), news_of(run)});
    } else if (run.tokens_per_s_per_gpu && !run.oom_error) {
      targets.push_back(point_of(table.sweep, run));
      measured.push_back(*run.tokens_per_s_per_gpu);
    }
  }
  const Predictor predictor(table.cluster, *table.family);
  for (const auto& cell : extrapolate(table.cluster, predictor, known, targets)) {
    const auto& first = cell.layouts.front();
    const auto gpus = targets[first.target].point.gpus;
    const auto nodes = gpus / table.cluster.gpus_per_node;
    auto& into = scores[static_cast<int>(std::lround(std::log2(nodes / largest)))];
    double best = 0;
    for (const auto& one : cell.layouts) {
      const double truth = measured[one.target];
      into.off.push_back(std::abs(std::log(truth / one.tokens_per_s_per_gpu)));
      if (is_held(cell, one, truth)) ++into.held;
      best = std::max(best, truth);
    }
    const double chosen = measured[first.target];
    if (is_held(cell, first, chosen)) ++into.proposals_held;
    into.regret.push_back(1 - chosen / best);
  }
}

std::set<std::string> models_of(const RecordedSweep& sweep) {
  std::set<std::string> names;
  for (const auto& run : sweep.runs)
    names.insert(sweep.model_of(run).name);
  return names;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main() {
  const auto* folder = std::getenv("SHARDSWEEP_PUBLISHED_DATA");
  if (folder == nullptr) {
    fmt::print(stderr, "set SHARDSWEEP_PUBLISHED_DATA to the folder of the published tables\n");
    return 2;
  }
  const auto table = published(folder, SHARDSWEEP_SOURCE_DIR "/sweeps");
  if (!table) {
    fmt::print(stderr, "{}\n", table.error().what);
    return 1;
  }
  std::map<int, Score> scores;
  constexpr std::int32_t most_known = 32;
  for (std::int32_t largest = 1; largest <= most_known; largest *= 2) {
    for (const std::string& model : models_of(table->sweep))
      score(*table, model, largest, scores);
  }
  fmt::print(
      "doublings  layouts  off: median  95 %   interval held  proposals: held  regret "
      "median  95 %\n");
  for (const auto& [doublings, one] : scores) {
    fmt::print(
        "{:>9} {:>8} {:>11.1f} % {:>5.1f} % {:>12.1f} % {:>13.1f} % {:>13.1f} % {:>5.1f} %\n",
        doublings, one.off.size(), 100 * quantile(one.off, 0.5), 100 * quantile(one.off, 0.95),
        100 * static_cast<double>(one.held) / static_cast<double>(one.off.size()),
        100 * static_cast<double>(one.proposals_held) / static_cast<double>(one.regret.size()),
        100 * quantile(one.regret, 0.5), 100 * quantile(one.regret, 0.95));
  }
  return 0;
}
