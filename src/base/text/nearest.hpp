// SPDX-License-Identifier: Apache-2.0
// Did you mean …?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The candidate that `word` was probably meant to be; empty if none is near.
[[nodiscard]] std::string_view nearest(
    std::string_view word, const std::vector<std::string_view>& candidates);
/// ", did you mean 'x'?", or nothing.
[[nodiscard]] std::string did_you_mean(
    std::string_view word, const std::vector<std::string_view>& candidates);
/// "unknown key 'x'", with the one that was meant, or all that `what` may have.
[[nodiscard]] std::string unknown_key(
    std::string_view key, std::string_view what, std::vector<std::string_view> known);

}  // namespace shardsweep
