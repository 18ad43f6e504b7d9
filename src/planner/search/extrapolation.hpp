// SPDX-License-Identifier: Apache-2.0
// What runs on some numbers of nodes say about layouts on others. An answer is a guess with an
// interval: it is shown as one, and never stands among measurements.
#pragma once

#include "predict/predictor.hpp"
#include "search/search_point.hpp"

#include <shardsweep/model.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace shardsweep {

/// A layout that has run.
struct Experience {
  SearchPoint point;
  SearchNews news;
};

/// Prediction for a layout that has not run.
struct Extrapolation {
  std::size_t target = 0;  ///< index of the layout in the targets
  double tokens_per_s_per_gpu = 0;
  double sigma = 0;  ///< standard deviation of ln(speed), by the model alone
  double fits = 0;   ///< chance that memory suffices
  /// The chance to fit times the speed.
  [[nodiscard]] double promise() const { return fits * tokens_per_s_per_gpu; }
};

/// How runs of larger worlds would have been foretold by those of smaller ones.
struct Backtest {
  std::size_t runs = 0;  ///< count of runs that were foretold; 0: too few worlds or runs to tell
  double sigmas = 0;     ///< 95 % of them lie within so many standard deviations; at least 1.96
  double outward = 1;    ///< largest ratio of their GPUs to the most that were known
};

struct ExtrapolatedCell {
  std::vector<Extrapolation> layouts;  ///< the most promising first
  Backtest test;
  /// The 95 % interval of what a run would measure: from speed / factor to speed * factor.
  [[nodiscard]] double factor_of(const Extrapolation& layout) const;
};

/// The time model, corrected by what was measured, as a search corrects it (SweepSearch); its
/// intervals as wide as its own record demands. A cell for each of the targets' cells
/// (cell_of()), in the order of growing models and nodes. Targets whose speed no cluster file
/// lets anybody predict are left out.
[[nodiscard]] std::vector<ExtrapolatedCell> extrapolate(const ClusterSpec& cluster,
    const Predictor& predictor, std::span<const Experience> known,
    const std::vector<SearchPoint>& targets);

}  // namespace shardsweep
