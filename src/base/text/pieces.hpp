// SPDX-License-Identifier: Apache-2.0
// Text taken apart.
#pragma once

#include <string_view>
#include <vector>

namespace shardsweep {

/// Without blanks at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// What lies between the marks: one piece more than there are marks.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char mark);

}  // namespace shardsweep
