// SPDX-License-Identifier: Apache-2.0
// The text of an expression before SQLite sees it: one expression and nothing else.
#pragma once

#include <shardsweep/result.hpp>

#include <set>
#include <string>
#include <string_view>

namespace shardsweep::filter {

/// Bytes; longer than any rule that a person writes.
inline constexpr std::size_t longest_expression = 4096;

/// The identifiers of an expression, in lower case. Faults (invalid_input, without the
/// expression itself): empty, too long, brackets or quotes that do not close, statements,
/// sub-queries, parameters, comments, control characters.
[[nodiscard]] Result<std::set<std::string>> read_identifiers(std::string_view expression);

/// The expression in quotes for a message, cut where it is long.
[[nodiscard]] std::string in_message(std::string_view expression);

/// Lower case, ASCII alone, as SQLite compares names.
[[nodiscard]] std::string lower(std::string_view text);

}  // namespace shardsweep::filter
