// SPDX-License-Identifier: Apache-2.0
// shardsweep-lab: judges the planner on published tables, and the program's own speed.
#include "cli/command.hpp"
#include "cli/command_line.hpp"

#include <array>

namespace shardsweep {
extern const Command command_replay;
extern const Command command_evaluate_memory;
extern const Command command_figures;
extern const Command command_help;
}  // namespace shardsweep

int main(int argc, char** argv) {
  using namespace shardsweep;
  static const std::array<const Command*, 4> commands{
      &command_replay, &command_evaluate_memory, &command_figures, &command_help};
  return run_program(commands, argc, argv, "shardsweep-lab");
}
