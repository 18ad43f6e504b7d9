// SPDX-License-Identifier: Apache-2.0
// A replay's score as text.
#pragma once

#include "show/table_view.hpp"
#include "tools/lab/replay.hpp"

#include <string>
#include <vector>

namespace shardsweep {

/// table: a line per cell and one for all of them; csv: the cells; json: an object with `cells`
/// and `total`.
[[nodiscard]] std::string replay_text(const ReplayReport& report, const TableStyle& style);

/// Replays whose time model was fitted to other rows, each with the name of those.
struct FittedReplay {
  std::string fitted_on;
  ReplayReport report;
};
/// table and csv: a line each; json: as replay_text of the first, with all their totals as
/// `cross_validation`.
[[nodiscard]] std::string cross_validation_text(
    const std::vector<FittedReplay>& replays, const TableStyle& style);

/// The shares and medians that policies are judged by, in a few lines.
[[nodiscard]] std::string replay_summary(const ReplayReport& report);

}  // namespace shardsweep
