// SPDX-License-Identifier: Apache-2.0
// What was measured elsewhere, as the rows of trials that have ended.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/change.hpp>

namespace shardsweep::sqlite {

/// Inside the transaction that takes an import over: gives each of its new trials (`planned`)
/// an attempt, the measurement and the end that the staged table says. A trial that was
/// imported before and has another outcome or speed now is a fault (invalid_input): nothing
/// measured is ever relabelled.
void put_imported(Database& database, SweepId sweep, Timestamp now);

}  // namespace shardsweep::sqlite
