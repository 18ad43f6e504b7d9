// SPDX-License-Identifier: Apache-2.0
// How much a column is worth to somebody who reads a table. A terminal that is too narrow for a
// whole table shows the columns of most worth; all tables share one order. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardsweep {

/// Place in the order of worth, 0 being the first to stay; columns_of_worth(): the column is
/// not in it, and stands behind those that are.
[[nodiscard]] std::size_t worth_of(std::string_view column);
[[nodiscard]] std::size_t columns_of_worth();

/// True if the column says what a row is of, rather than what came out.
[[nodiscard]] bool names_rows(std::string_view column);

/// True if the column's values are sentences, which may go over several lines of a row.
[[nodiscard]] bool is_prose(std::string_view column);

}  // namespace shardsweep
