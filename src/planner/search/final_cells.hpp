// SPDX-License-Identifier: Apache-2.0
// The finals of each cell, from rows: who takes part, and what has been run. Pure.
#pragma once

#include "search/finals.hpp"

#include <shardsweep/store.hpp>

#include <string>
#include <vector>

namespace shardsweep {

struct FinalCell {
  std::string cell;
  std::vector<TrialId> finalists;  ///< the fastest first
  std::vector<FinalRun> runs;      ///< of these
  /// No layout beside the finalists was measured faster than the slowest of them.
  bool holds = true;
};

/// `most`: so many layouts of a cell; 0: those that have run in its finals.
[[nodiscard]] std::vector<FinalCell> final_cells(const std::vector<FinalsRow>& rows,
                                                 std::size_t most);

}  // namespace shardsweep
