// SPDX-License-Identifier: Apache-2.0
// A trainer's source tree, held against the command line: whether it has the script, and which form
// of configuration it takes, if its version does not tell. torchtitan's version.txt says 0.2.2 in
// trees that read a TOML file and in those that do not.
#pragma once

#include <shardsweep/sweep.hpp>

#include <string>

namespace shardsweep {

/// Warning that the script of the command line is not in the runner's folder; empty: it is, or no
/// word is a script by its name.
[[nodiscard]] std::string missing_script_text(const SweepSpec& sweep);

/// Warning that the command line starts the ranks of a node, and is itself started for each rank;
/// empty: it doesn't.
[[nodiscard]] std::string launcher_text(const SweepSpec& sweep);

/// Why the command of a sweep can't be that of the tree in its runner's folder, in sentences
/// that say what would be right; empty: it can be, or there is no such tree here.
[[nodiscard]] std::string wrong_tree_text(const SweepSpec& sweep);

}  // namespace shardsweep
