// SPDX-License-Identifier: Apache-2.0
// In which order, and under which headings, help lists the commands.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The headings under which commands are listed. A command that stands in none is under
/// "Other".
struct CommandGroup {
  std::string_view name;
  std::vector<std::string_view> commands;
};
inline const std::array<CommandGroup, 3> command_groups{{
    {"Daily commands",
     {"new", "plan", "submit", "run", "status", "follow", "logs", "pause", "resume", "cancel",
      "rerun", "delete", "show"}},
    {"Results",
     {"results", "query", "best", "compare", "explain", "extrapolate", "frontier", "heatmap",
      "report", "export"}},
    {"Other commands", {}},
}};

/// The heading of a command.
[[nodiscard]] inline std::string group_of(std::string_view command) {
  for (const CommandGroup& group : command_groups) {
    const auto& all = group.commands;
    if (std::find(all.begin(), all.end(), command) != all.end()) return std::string(group.name);
  }
  return std::string(command_groups.back().name);
}

}  // namespace shardsweep
