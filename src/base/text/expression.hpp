// SPDX-License-Identifier: Apache-2.0
// Arithmetic in placeholders, {micro_batch*seq_len}: what `exclude` says with integers and
// words means the same here. Without SQLite, for the program on a compute node that loads none.
//   or  and  not   = == != <>   < <= > >=   + -   * / %   unary -   ( )
//   integers of 64 bits, 'words', true, false, names
// A division leaves no remainder behind, as SQL's. There are no functions and no fractions.
#pragma once

#include <shardsweep/result.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Most bytes, and most levels of nesting: more than a person writes.
inline constexpr std::size_t longest_computed = 512;
inline constexpr int deepest_computed = 40;

/// Names in the order in which they stand. Faults: what is wrong with the text, and after what.
[[nodiscard]] Result<std::vector<std::string_view>> names_of_expression(
    std::string_view expression);

/// The value of a name as a text: an integer, true or false (1 and 0), or a word.
using TextOfName = std::function<std::optional<std::string_view>(std::string_view)>;
/// An integer or a word. Faults besides those above: a name without a value, a word in
/// arithmetic or beside a number, a division by zero, what no 64 bits hold.
[[nodiscard]] Result<std::string> computed(std::string_view expression, const TextOfName& text_of);

}  // namespace shardsweep
