// SPDX-License-Identifier: Apache-2.0
// Two sets of results, layout by layout: what became faster, and whose winner changed.
#pragma once

#include "show/exit_code.hpp"

#include <shardsweep/difference.hpp>
#include <shardsweep/table.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The rows of Reader::layouts() for one side.
struct Side {
  std::string name;
  Table layouts;
};

struct SideBySide {
  Table rows;                            ///< a row for each layout that both sides have measured
  Table winners;                         ///< a row for each cell that both sides have measured
  std::array<std::int64_t, 4> counts{};  ///< layouts of `rows` by Difference
  std::int64_t only_first = 0;           ///< layouts without a partner
  std::int64_t only_second = 0;
  /// Settings that a side lacks and the other one has.
  std::vector<std::string> first_lacks{};
  std::vector<std::string> second_lacks{};
  std::int64_t changed_winners = 0;
  std::int64_t sure_changes = 0;  ///< changes whose new winner certainly leads the old one
  /// By how much the layout that lost most has lost, among those that are SLOWER.
  double worst_loss = 0;
  std::string worst_layout;
  /// The same among those that are UNDECIDED, and that rounding does not explain.
  double worst_open = 0;
  std::string worst_open_layout;
  std::string worst_open_reason;
  std::array<std::int64_t, word_table<Open>.size()> open_counts{};  ///< UNDECIDED layouts by reason
};

/// Joined by cell and layout. A side without a setting of the other is joined with each of its
/// values. `by`: the column that tells the sides apart; it is no part of a
/// cell. Of several measurements of one layout on one side, the one counts that stands first in
/// its answer.
[[nodiscard]] SideBySide side_by_side(
    const Side& first, const Side& second, std::string_view by, double resolve);

/// Verdict for CI on layouts that got slower by `limit` (a share) or more: 1 if one is SLOWER.
/// UNDECIDED ones fail nothing: the one that seems to have lost most is named with the reason.
[[nodiscard]] SweepVerdict judge_limit(const SideBySide& both, double limit);

/// `12 layouts on both sides: 3 FASTER, …; 2 only in a, 1 only in b. The winner of 1 of 4 cells
/// changes.`
[[nodiscard]] std::string summary_text(
    const SideBySide& both, const Side& first, const Side& second);

}  // namespace shardsweep
