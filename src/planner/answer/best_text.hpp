// SPDX-License-Identifier: Apache-2.0
// The answers of a sweep's cells in sentences: at the end of a run, in its live lines, in its
// status, and in the notice that tells somebody who is away. Pure.
#pragma once

#include <shardsweep/progress.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// "mini, 4 GPUs": what tells a cell from the others of its sweep; empty: there are no others.
[[nodiscard]] std::string cell_text(const CellKey& cell, const std::vector<CellBest>& among);

/// "best of mini: 8,012 tokens/s/GPU with dp2 tp1 (mini-g2-…): faster by 3.0 % (2 runs each)".
[[nodiscard]] std::string best_text(const CellBest& best, const std::vector<CellBest>& among);

/// Certainty and lead as a cell of a table has room for them: "faster by 3.0 %", "tie, +1.0 %",
/// "1 run"; empty: nothing is ranked.
[[nodiscard]] std::string brief_text(const CellAnswer& answer);

/// "sweep 'first' has ended; best: …": the first cells, each with what makes it doubtful.
[[nodiscard]] std::string ended_text(std::string_view ended, const std::vector<CellBest>& cells);

}  // namespace shardsweep
