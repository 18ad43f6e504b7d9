// SPDX-License-Identifier: Apache-2.0
// Names of flags as names of variables.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace shardsweep {

/// A name with _ for each -.
[[nodiscard]] inline std::string underscored(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace shardsweep
