// SPDX-License-Identifier: Apache-2.0
// Words in braces that a trainer's command line, files and variables may hold. No shell.
//   {micro_batch}              its value
//   {micro_batch*seq_len}      computed, in the words of text/expression.hpp
//   {tp>1 or cp>1?1:32}        one of two texts, which may hold placeholders
//   {sequence_parallel?--sp}   one text or none: the condition holds unless it is false, none,
//   0
//                              or empty. As a whole word of a command line: that word or no
//                              word
//   {recompute=full?--full}    a word needs no quotes beside a single name
//   {{dp}}                     the text {dp} itself
// Other braces, as in JSON, stay as they are, and so does a computation that names nothing
// known: it is of another language. What names a value that comes later (on a node: the rank)
// waits for it.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

using Placeholders = std::map<std::string, std::string, std::less<>>;

enum class DoubleBraces : std::uint8_t { keep, make_single };

/// Faults: a name that is not among `names`, with the nearest one; an expression that can't be
/// read.
[[nodiscard]] Result<void> check_placeholders(
    std::string_view text, const std::vector<std::string_view>& names);
/// The names that stand in `text` as placeholders or within them.
[[nodiscard]] std::vector<std::string_view> placeholders_in(std::string_view text);
/// True if the text does more than name a value or compare it with a word.
[[nodiscard]] bool computes(std::string_view text);
/// The first computation that fails with these values: 'x' / 0, a word in arithmetic.
[[nodiscard]] Result<void> check_computed(std::string_view text, const Placeholders& values);

/// Fills in values; placeholders without a value, or that can't be computed, stay.
[[nodiscard]] std::string filled(
    std::string_view text, const Placeholders& values, DoubleBraces braces);
/// Fills a command line: a conditional word is dropped if its condition does not hold.
[[nodiscard]] std::vector<std::string> filled_words(
    const std::vector<std::string>& words, const Placeholders& values, DoubleBraces braces);

}  // namespace shardsweep
