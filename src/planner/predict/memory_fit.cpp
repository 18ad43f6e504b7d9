// SPDX-License-Identifier: Apache-2.0
#include "predict/memory_fit.hpp"

#include "predict/recorded_fit.hpp"
#include "predict/units.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace shardsweep {
namespace {

constexpr std::array<FittedConstant, 2> nanotron_constants{{
    {"tp_retained_rows", &MemoryFamily::tp_retained_rows, 1, 80},
    {"allocator_bytes", &MemoryFamily::allocator_bytes, 0.05 * gib, 2 * gib},
}};

bool says_its_peak(const RecordedRun& run) {
  return run.outcome == Outcome::completed && !run.oom_error &&
         run.peak_memory_bytes.value_or(0) > 0;
}

double off_by(const RecordedSweep& sweep, const ClusterSpec& cluster, const Family& family,
              std::string_view without) {
  const Predictor predictor(cluster, family);
  double sum = 0;
  for (const auto& run : sweep.runs) {
    const auto& model = sweep.model_of(run);
    if (!says_its_peak(run) || model.name == without) continue;
    const auto predicted = predictor.reported_peak_bytes(model, run.point, traits_of(run));
    sum += std::abs(
        std::log(static_cast<double>(predicted) / static_cast<double>(*run.peak_memory_bytes)));
  }
  return sum;
}

void set(Family& family, const FittedConstant& constant, double value) {
  const bool shared = !family.least.name.empty() &&
                      family.least.*constant.value == family.memory.*constant.value;
  family.memory.*constant.value = value;
  if (shared) family.least.*constant.value = value;
}

}  // namespace

std::span<const FittedConstant> fitted_memory_constants(std::string_view family) {
  if (family == "nanotron") return nanotron_constants;
  return {};
}

Family refit_memory(const RecordedSweep& sweep, const ClusterSpec& cluster,
                    const Family& family, std::string_view without) {
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
