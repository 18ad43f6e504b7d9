// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/memory_score.hpp"

#include "predict/units.hpp"
#include "text/median.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace shardsweep {

RunTraits traits_of(const RecordedRun& run) {
  auto traits = traits_of_kernel(run.kernel);
  traits.peak_stage = run.peak_stage;
  traits.recompute_layers = run.recompute_layers;
  traits.recompute_by_block = run.recompute_by_block;
  return traits;
}

Point point_at_best(const RecordedRun& run) {
  Point point = run.point;
  Layout& layout = point.layout;
  if (run.unknown.sequence_parallel) layout.sequence_parallel = layout.tp > 1;
  if (run.unknown.zero) layout.zero = layout.dp > 1 ? 3 : 0;
  if (run.unknown.recompute) layout.recompute = Recompute::full;
  if (layout.cp > 1) {
    point.seq_len = std::max(1, point.seq_len / layout.cp);
    layout.cp = 1;
  }
  return point;
}

namespace {

double error_of(std::int64_t predicted, std::int64_t reported) {
  return std::abs(static_cast<double>(predicted) / static_cast<double>(reported) - 1);
}

RelativeError error_over(std::vector<double> errors) {
  RelativeError error;
  error.rows = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) return error;
  std::sort(errors.begin(), errors.end());
  const auto count = errors.size();
  error.median = median_of(errors, Even::mean);
  error.p90 = errors[(9 * count + 9) / 10 - 1];
  return error;
}

// Counts and errors of one model, or of all.
class Scoring {
 public:
  void add(const RecordedRun& run, const ModelSpec& model, const RunTraits& traits,
      const Predictor& predictor, const MemoryFamily& family) {
    // Never is said only if not even that point fits.
    const auto fit = predictor.guess_memory(model, point_at_best(run), traits).fit;
    if (run.outcome == Outcome::oom) {
      ++score_.oom;
      ++(fit == Fit::never ? score_.caught : score_.missed);
      if (fit == Fit::doubtful) ++score_.oom_doubtful;
    }
    if (run.outcome != Outcome::completed || run.oom_error) return;
    ++score_.good;
    if (fit == Fit::never) ++score_.good_left_out;
    if (fit == Fit::doubtful) ++score_.good_doubtful;
    if (run.peak_memory_bytes && *run.peak_memory_bytes > 0) {
      peak_.push_back(error_of(
          predictor.reported_peak_bytes(model, run.point, traits), *run.peak_memory_bytes));
    }
    if (run.allocated_memory_bytes && *run.allocated_memory_bytes > 0) {
      allocated_.push_back(
          error_of(update_bytes(model, run.point, family), *run.allocated_memory_bytes));
    }
  }

  [[nodiscard]] MemoryScore result(std::string model) {
    score_.model = std::move(model);
    score_.peak = error_over(std::move(peak_));
    score_.allocated = error_over(std::move(allocated_));
    return score_;
  }

 private:
  MemoryScore score_;
  std::vector<double> peak_;
  std::vector<double> allocated_;
};

MemoryReport score_by(const RecordedSweep& sweep, const ClusterSpec& cluster,
    const std::function<const Family&(const ModelSpec&)>& family_of) {
  Scoring total;
  std::vector<Scoring> models(sweep.models.size());
  std::vector<bool> seen(sweep.models.size(), false);
  for (const auto& run : sweep.runs) {
    const auto index = static_cast<std::size_t>(run.point.model);
    const auto traits = traits_of(run);
    const auto& family = family_of(sweep.models[index]);
    const Predictor predictor(cluster, family);
    seen[index] = true;
    for (auto* scoring : {&models[index], &total})
      scoring->add(run, sweep.models[index], traits, predictor, family.memory);
  }
  MemoryReport report;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (seen[i]) report.models.push_back(models[i].result(sweep.models[i].name));
  }
  report.total = total.result("");
  return report;
}

}  // namespace

MemoryReport score_memory(
    const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family) {
  return score_by(sweep, cluster, [&](const ModelSpec&) -> const Family& { return family; });
}

MemoryReport cross_validate_memory(
    const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family) {
  std::map<std::string, std::unique_ptr<Family>> fitted;  // by the model that it has not seen
  return score_by(sweep, cluster, [&](const ModelSpec& model) -> const Family& {
    auto& one = fitted[model.name];
    if (!one) one = std::make_unique<Family>(refit_memory(sweep, cluster, family, model.name));
    return *one;
  });
}

namespace {

constexpr std::array<FittedConstant, 2> nanotron_constants{{
    {"tp_retained_rows", &MemoryFamily::tp_retained_rows, 1, 80},
    {"allocator_bytes", &MemoryFamily::allocator_bytes, 0.05 * gib, 2 * gib},
}};

double off_by(const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family,
    std::string_view without) {
  const Predictor predictor(cluster, family);
  double sum = 0;
  for (const auto& run : sweep.runs) {
    const auto& model = sweep.model_of(run);
    const bool says_its_peak = run.outcome == Outcome::completed && !run.oom_error &&
        run.peak_memory_bytes.value_or(0) > 0;
    if (!says_its_peak || model.name == without) continue;
    const auto predicted = predictor.reported_peak_bytes(model, run.point, traits_of(run));
    sum += std::abs(
        std::log(static_cast<double>(predicted) / static_cast<double>(*run.peak_memory_bytes)));
  }
  return sum;
}

void set(Family& family, const FittedConstant& constant, double value) {
  const bool shared =
      family.least && (*family.least).*constant.value == family.memory.*constant.value;
  family.memory.*constant.value = value;
  if (shared) (*family.least).*constant.value = value;
}

}  // namespace

std::span<const FittedConstant> fitted_memory_constants(std::string_view family) {
  if (family == "nanotron") return nanotron_constants;
  return {};
}

Family refit_memory(const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family,
    std::string_view without) {
  Family fitted = family;
  if (off_by(sweep, cluster, family, without) == 0) return fitted;
  constexpr int rounds = 3;  // the constants hardly depend on each other
  for (int round = 0; round < rounds; ++round) {
    for (const auto& constant : fitted_memory_constants(family.name)) {
      double least = std::numeric_limits<double>::infinity();
      double best = 0;
      for (int step = 0; step * constant.step <= constant.most; ++step) {
        Family tried = fitted;
        set(tried, constant, step * constant.step);
        const double off = off_by(sweep, cluster, tried, without);
        if (off >= least) continue;
        least = off;
        best = step * constant.step;
      }
      set(fitted, constant, best);
    }
  }
  return fitted;
}

}  // namespace shardsweep
