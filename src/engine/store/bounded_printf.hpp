// SPDX-License-Identifier: Apache-2.0
// printf() and format() of SQL, without the one thing that no deadline interrupts: a character
// that is repeated 10^9 times, inside one instruction.
#pragma once

#include "store/sqlite.hpp"

namespace shardsweep::sqlite {

/// From now on the connection refuses precisions of `%c` above 10^6, and otherwise prints as
/// SQLite does.
void bound_printf(Database& database);

}  // namespace shardsweep::sqlite
