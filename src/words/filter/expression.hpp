// SPDX-License-Identifier: Apache-2.0
// The text of an expression before SQLite sees it: one expression and nothing else.
#pragma once

#include <shardsweep/result.hpp>

#include <optional>
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

/// What SQLite says of an expression that stands in brackets of ours: those are not named.
[[nodiscard]] std::string syntax_in_words(std::string words, std::string_view expression);

/// Lower case, ASCII alone, as SQLite compares names.
[[nodiscard]] std::string lower(std::string_view text);

/// The name in SQLite's message about a column that is missing; empty for other messages. From
/// 3.46 on a name in double quotes is shown with them, and advice follows it.
[[nodiscard]] std::optional<std::string_view> missing_column(std::string_view message);

}  // namespace shardsweep::filter
