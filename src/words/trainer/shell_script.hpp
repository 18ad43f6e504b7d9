// SPDX-License-Identifier: Apache-2.0
// The commands of a shell script, with the script's own variables filled in: launch scripts set
// degrees in one place and name them in another. Nothing is run. What depends on a branch, on
// the script's arguments or on the environment is unsure, and whoever needs it refuses it.
#pragma once

#include <shardsweep/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Word without blanks. A variable that is not set, or set more than once, stays as $NAME.
struct ScriptWord {
  std::string text;
  bool unsure = false;  ///< the word is there in some branch only
  friend bool operator==(const ScriptWord&, const ScriptWord&) = default;
};
using ScriptCommand = std::vector<ScriptWord>;

/// Commands that have a word with '--' or '=' in it, in their order. A quote keeps words together
/// for the shell and not here; a quote without its other is a fault.
[[nodiscard]] Result<std::vector<ScriptCommand>> commands_of_script(std::string_view text);

}  // namespace shardsweep
