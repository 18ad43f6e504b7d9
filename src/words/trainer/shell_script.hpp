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

/// A file of settings that the script writes by a here document: `cat >ds.json <<EOF`.
struct ScriptDocument {
  std::string name, text;
  bool unsure = false;  ///< the script writes it in some branch only
};

struct Script {
  /// Commands that have a word with '--' or '=' in it, in their order, those of a here document
  /// that is no file of settings among them.
  std::vector<ScriptCommand> commands;
  std::vector<ScriptDocument> documents;
};

/// A quote keeps words together for the shell and not here; a quote without its other is a fault.
[[nodiscard]] Result<Script> read_script(std::string_view text);
/// True if a here document begins in the text.
[[nodiscard]] bool has_here_document(std::string_view text);

}  // namespace shardsweep
