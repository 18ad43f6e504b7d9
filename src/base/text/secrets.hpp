// SPDX-License-Identifier: Apache-2.0
// Which values nobody but their owner may see. Pages, tables and printed files show
// `hidden_value` in their place.
#pragma once

#include <string_view>

namespace shardsweep {

inline constexpr std::string_view hidden_value = "(hidden)";

/// True if a variable's name says that its value is a secret: WANDB_API_KEY, HF_TOKEN.
[[nodiscard]] bool may_be_secret(std::string_view name);

}  // namespace shardsweep
