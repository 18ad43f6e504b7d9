// SPDX-License-Identifier: Apache-2.0
// Where the step and the memory of one trial go: measured and predicted side by side.
#pragma once

#include "show/rows.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/results.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// A trial of ReportFacts::trials, and what its prediction is made from.
struct TrialToExplain {
  const Rows& trials;
  std::size_t row = 0;
  std::optional<ModelSpec> model{};      ///< model of the trial; none: nothing is predicted
  std::optional<ClusterSpec> cluster{};  ///< likewise
};

/// The trial's point; its model is number 0.
[[nodiscard]] Point point_of(const Rows& trials, std::size_t row);

/// Sections `trial`, `train step` and `memory`, as sections_text() prints them. The first one
/// has a `finding`: what is far from its prediction, and why a number is missing.
[[nodiscard]] std::vector<Reader::Section> explanation(const TrialToExplain& trial);

}  // namespace shardsweep
