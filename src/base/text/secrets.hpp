// SPDX-License-Identifier: Apache-2.0
// Which values nobody but their owner may see. This is the one place that decides by a name;
// readers of files ask it and move such variables to `secrets`. Pages, tables and printed files
// show `hidden_value` in their place.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace shardsweep {

inline constexpr std::string_view hidden_value = "(hidden)";

/// True if a variable's name says that its value is a secret: WANDB_API_KEY, HF_TOKEN.
[[nodiscard]] bool may_be_secret(std::string_view name);

/// The text of a YAML file in which each variable has a line of its own, with `hidden_value`
/// for those that may be secrets. Versions before this stored sweep files with their values.
[[nodiscard]] std::string without_secret_values(std::string_view yaml);

/// Bytes of the shortest value that is looked for: shorter ones (1, yes, on) stand in any text.
inline constexpr std::size_t shortest_masked = 4;

/// The text with a star for each byte of these values. Its length stays.
[[nodiscard]] std::string masked(
    std::string text, const std::map<std::string, std::string>& secrets);

}  // namespace shardsweep
