// SPDX-License-Identifier: Apache-2.0
#include "predict/memory_score.hpp"

#include "predict/memory_fit.hpp"
#include "predict/recorded_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace shardsweep {
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
  error.median =
      count % 2 == 1 ? errors[count / 2] : (errors[count / 2 - 1] + errors[count / 2]) / 2;
  error.p90 = errors[(9 * count + 9) / 10 - 1];
  return error;
}

// Counts and errors of one model, or of all.
class Scoring {
 public:
  void add(const RecordedRun& run, const ModelSpec& model, const RunTraits& traits,
           const Predictor& predictor, const MemoryFamily& family) {
    const auto fit = recorded_fit(predictor, model, run, traits);
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
      peak_.push_back(error_of(predictor.reported_peak_bytes(model, run.point, traits),
                               *run.peak_memory_bytes));
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

MemoryReport score_memory(const RecordedSweep& sweep, const ClusterSpec& cluster,
                          const Family& family) {
  return score_by(sweep, cluster, [&](const ModelSpec&) -> const Family& { return family; });
}

MemoryReport cross_validate_memory(const RecordedSweep& sweep, const ClusterSpec& cluster,
                                   const Family& family) {
  std::map<std::string, std::unique_ptr<Family>> fitted;  // by the model that it has not seen
  return score_by(sweep, cluster, [&](const ModelSpec& model) -> const Family& {
    auto& one = fitted[model.name];
    if (!one) one = std::make_unique<Family>(refit_memory(sweep, cluster, family, model.name));
    return *one;
  });
}

}  // namespace shardsweep
