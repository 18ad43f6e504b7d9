// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/search_row.hpp>
#include <shardsweep/sweep.hpp>

#include <vector>

namespace shardsweep::sqlite {

/// Rows of the trials that are in the sweep file, in the order of the plan.
[[nodiscard]] std::vector<SearchRow> search_rows(
    Database& database, SweepId id, const SweepSpec& sweep);

}  // namespace shardsweep::sqlite
