// SPDX-License-Identifier: Apache-2.0
// Output of a terminal as plain text.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

/// Removes colours and other escape sequences (ESC [ … letter).
[[nodiscard]] std::string without_escapes(std::string_view text);

}  // namespace shardsweep
