// SPDX-License-Identifier: Apache-2.0
// Outcomes as the page words and colours them.
#pragma once

#include "show/trial_columns.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

/// How trials ended, or the state of those that have not; the most frequent first, what was
/// measured before all.
[[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> counts_by_outcome(
    const std::vector<ReportedTrial>& trials);

/// `out of memory` of `oom`.
[[nodiscard]] std::string outcome_words(std::string_view outcome);

/// The number of its colour, k0 to k7 of page.css.
[[nodiscard]] std::size_t outcome_colour(std::string_view outcome);

}  // namespace shardsweep
