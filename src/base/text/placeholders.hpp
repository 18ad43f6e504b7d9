// SPDX-License-Identifier: Apache-2.0
// Words in braces that a trainer's command line and files may hold: {dp}, {micro_batch}. No
// shell and no expressions.
//   {{dp}}                     the text {dp} itself
//   {sequence_parallel?--sp}   as a whole word of a command line: --sp unless the value is
//                              false, none or 0; else no word
//   {recompute=full?--full}    as a whole word: --full where recompute is full
// Other braces, as in JSON, stay as they are.
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

/// A placeholder that is not among `names` is a fault that tells the nearest one.
[[nodiscard]] Result<void> check_placeholders(std::string_view text,
                                              const std::vector<std::string_view>& names);
/// A placeholder without a value stays as it is.
[[nodiscard]] std::string filled(std::string_view text, const Placeholders& values,
                                 DoubleBraces braces);
/// Of a command line: a conditional word whose condition does not hold is left out.
[[nodiscard]] std::vector<std::string> filled_words(const std::vector<std::string>& words,
                                                    const Placeholders& values,
                                                    DoubleBraces braces);

}  // namespace shardsweep
