// SPDX-License-Identifier: Apache-2.0
// The commands. Nothing else lists them.
#pragma once

#include "cli/command.hpp"

#include <span>

namespace shardsweep {

/// Commands in the order in which help and completion list them.
[[nodiscard]] std::span<const Command* const> all_commands();

}  // namespace shardsweep
