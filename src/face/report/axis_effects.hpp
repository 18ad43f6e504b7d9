// SPDX-License-Identifier: Apache-2.0
// Which axis matters: pairs of layouts of one cell that differ in one axis alone. Nothing is
// fitted, because layouts that did not run leave holes in which a model would invent effects.
#pragma once

#include "report/cells_of_page.hpp"
#include "show/trial_columns.hpp"

#include <string>
#include <vector>

namespace shardsweep {

/// Step from one value of an axis to its next one.
struct AxisEffect {
  std::string axis;
  std::string from;
  std::string to;
  std::vector<double> changes;  ///< speed at `to` / speed at `from` - 1, of each pair; sorted
  [[nodiscard]] double at(double share) const;
};

/// Effects of all cells, axis by axis: first the axis with the largest change in the median. Steps
/// with fewer than three pairs are left out, unless no other is there.
[[nodiscard]] std::vector<AxisEffect> axis_effects(const std::vector<PageCell>& cells,
    const std::vector<ReportedTrial>& trials, const TrialRows& rows);

}  // namespace shardsweep
