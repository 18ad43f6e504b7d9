// SPDX-License-Identifier: Apache-2.0
// Deleting a sweep with everything that belongs to it.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/store.hpp>

#include <functional>

namespace shardsweep::sqlite {

[[nodiscard]] SweepContents contents(Database& database, SweepId sweep);

/// One piece of at most `rows` rows, in a transaction of its own; true when the sweep is gone.
[[nodiscard]] bool delete_piece(Database& database, SweepId sweep, std::int64_t rows,
    const Store::ForgetFolder& forget, const std::function<void()>& check_epoch);

}  // namespace shardsweep::sqlite
