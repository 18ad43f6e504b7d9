// SPDX-License-Identifier: Apache-2.0
// Words as a POSIX shell reads them.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

/// In single quotes, whatever is in it.
[[nodiscard]] inline std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += "'\\'";
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace shardsweep
