// SPDX-License-Identifier: Apache-2.0
// Where the step and the memory of one trial go: measured and predicted side by side.
#pragma once

#include "show/trial_columns.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/results.hpp>

#include <optional>
#include <vector>

namespace shardsweep {

/// A trial, and what its prediction is made from.
struct TrialToExplain {
  const ReportedTrial& trial;
  std::optional<ModelSpec> model{};      ///< model of the trial; none: nothing is predicted
  std::optional<ClusterSpec> cluster{};  ///< likewise
};

/// Sections `trial`, `train step` and `memory`, as sections_text() prints them. The first one
/// has a `finding`: what is far from its prediction, and why a number is missing.
[[nodiscard]] std::vector<Reader::Section> explanation(const TrialToExplain& trial);

}  // namespace shardsweep
